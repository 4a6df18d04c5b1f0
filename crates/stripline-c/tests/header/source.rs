//! Reads the items that the source of this crate exports, for the header.

use std::path::Path;

use syn::{Expr, ExprLit, Fields, FnArg, Item, Lit, Meta, Pat, ReturnType, Type, Visibility};

/// The modules in the order of the header: each uses only types of the modules before it.
const MODULES: [&str; 35] = [
    "text",
    "version",
    "status",
    "error",
    "library_log",
    "waker",
    "node",
    "report",
    "sample_type",
    "stream",
    "packet",
    "publisher/send_options",
    "publisher",
    "publisher/loan",
    "publisher/send",
    "subscriber",
    "serve",
    "batch",
    "call",
    "call/pending",
    "call/client",
    "call/responder",
    "call/service",
    "call/server",
    "arm",
    "wait_set",
    "component/reason",
    "component/properties",
    "component/readout",
    "component/ports",
    "component/handler",
    "component",
    "component/declare",
    "component/main",
    "component/harness",
];

/// The content of the header.
pub struct Source {
    /// The documentation of the crate.
    pub docs: Vec<String>,
    pub modules: Vec<Module>,
}

/// The items that a module exports.
#[derive(Default)]
pub struct Module {
    pub docs: Vec<String>,
    pub constants: Vec<Constant>,
    pub handles: Vec<Handle>,
    pub enums: Vec<Enumeration>,
    pub structures: Vec<Structure>,
    pub callbacks: Vec<Function>,
    pub functions: Vec<Function>,
}

/// A constant, with its value as text.
pub struct Constant {
    pub name: String,
    pub docs: Vec<String>,
    pub of: String,
    pub value: String,
}

/// An opaque type.
pub struct Handle {
    pub name: String,
    pub docs: Vec<String>,
}

/// An enumeration, and the variants with their numbers.
pub struct Enumeration {
    pub name: String,
    pub docs: Vec<String>,
    /// The integer that functions return.
    pub of: String,
    pub variants: Vec<(String, Vec<String>, String)>,
}

/// A structure with the same layout in Rust and C.
pub struct Structure {
    pub name: String,
    pub docs: Vec<String>,
    pub members: Vec<Parameter>,
}

/// A function, or a function type.
pub struct Function {
    pub name: String,
    pub docs: Vec<String>,
    pub parameters: Vec<Parameter>,
    /// The C type.
    pub returns: String,
}

/// A parameter or member, with the C type.
pub struct Parameter {
    pub name: String,
    pub docs: Vec<String>,
    pub of: String,
}

/// Reads the crate in this folder.
pub fn read(package: &Path) -> Source {
    let parse = |name: &str| {
        let path = package.join("src").join(name).with_extension("rs");
        let text =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let modules = MODULES.map(|name| module(parse(name))).into();
    Source { docs: docs(&parse("lib").attrs), modules }
}

fn module(file: syn::File) -> Module {
    let mut module = Module { docs: docs(&file.attrs), ..Module::default() };
    for item in file.items {
        match item {
            Item::Const(it) if is_public(&it.vis) => module.constants.push(Constant {
                name: it.ident.to_string(),
                docs: docs(&it.attrs),
                of: c_type(&it.ty),
                value: value(&it.expr),
            }),
            Item::Enum(it) if is_public(&it.vis) => {
                let variants = it.variants.iter().map(|variant| {
                    let number = value(&variant.discriminant.as_ref().expect("each has a number").1);
                    (variant.ident.to_string(), docs(&variant.attrs), number)
                });
                let of = representation(&it.attrs).expect("an exported enum has `repr`");
                let variants = variants.collect();
                module.enums.push(Enumeration {
                    name: it.ident.to_string(),
                    docs: docs(&it.attrs),
                    of,
                    variants,
                });
            }
            Item::Struct(it) if is_public(&it.vis) => {
                let (name, docs) = (it.ident.to_string(), docs(&it.attrs));
                if representation(&it.attrs).as_deref() == Some("C") {
                    module.structures.push(Structure { name, docs, members: members(&it.fields) });
                } else {
                    module.handles.push(Handle { name, docs });
                }
            }
            Item::Type(it) if is_public(&it.vis) => {
                let Type::FnPtr(of) = &*it.ty else { panic!("`{}` is not a function", it.ident) };
                let parameters = of.inputs.iter().map(|input| Parameter {
                    name: input.name.as_ref().expect("each parameter has a name").0.to_string(),
                    docs: Vec::new(),
                    of: c_type(&input.ty),
                });
                module.callbacks.push(Function {
                    name: it.ident.to_string(),
                    docs: docs(&it.attrs),
                    parameters: parameters.collect(),
                    returns: returned(&of.output),
                });
            }
            Item::Fn(it) if is_public(&it.vis) => {
                let parameters = it.sig.inputs.iter().map(|input| {
                    let FnArg::Typed(input) = input else { panic!("a method is not exported") };
                    let Pat::Ident(name) = &*input.pat else { panic!("a parameter has a plain name") };
                    let name = name.ident.to_string().trim_start_matches("r#").to_string();
                    Parameter { name, docs: Vec::new(), of: c_type(&input.ty) }
                });
                module.functions.push(Function {
                    name: it.sig.ident.to_string(),
                    docs: docs(&it.attrs),
                    parameters: parameters.collect(),
                    returns: returned(&it.sig.output),
                });
            }
            _ => {}
        }
    }
    module
}

fn members(fields: &Fields) -> Vec<Parameter> {
    let members = fields.iter().map(|field| {
        assert!(is_public(&field.vis), "a member of an exported structure is public");
        let name = field.ident.as_ref().expect("it has named members").to_string();
        Parameter { name, docs: docs(&field.attrs), of: c_type(&field.ty) }
    });
    members.collect()
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Returns the word in `#[repr(...)]`.
fn representation(attributes: &[syn::Attribute]) -> Option<String> {
    attributes.iter().find_map(|attribute| {
        let Meta::List(list) = &attribute.meta else { return None };
        list.path.is_ident("repr").then(|| list.tokens.to_string())
    })
}

/// Returns the lines of a documentation comment.
fn docs(attributes: &[syn::Attribute]) -> Vec<String> {
    let lines = attributes.iter().filter_map(|attribute| {
        let Meta::NameValue(meta) = &attribute.meta else { return None };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &meta.value else { return None };
        let text = text.value();
        meta.path.is_ident("doc").then(|| text.strip_prefix(' ').unwrap_or(&text).to_string())
    });
    lines.collect()
}

fn value(expression: &Expr) -> String {
    match expression {
        Expr::Lit(ExprLit { lit: Lit::Int(number), .. }) => number.base10_digits().into(),
        Expr::Unary(unary) => format!("-{}", value(&unary.expr)),
        _ => panic!("an exported constant is a whole number"),
    }
}

fn returned(output: &ReturnType) -> String {
    match output {
        ReturnType::Default => "void".into(),
        ReturnType::Type(_, of) => c_type(of),
    }
}

/// Returns a Rust type in C syntax.
fn c_type(of: &Type) -> String {
    match of {
        Type::Ptr(of) => pointer(matches!(of.mutability, syn::PointerMutability::Const(_)), &of.elem),
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a path has a name");
            match last.ident.to_string().as_str() {
                "i32" => "int32_t".into(),
                "i64" => "int64_t".into(),
                "u8" => "uint8_t".into(),
                "u32" => "uint32_t".into(),
                "u64" => "uint64_t".into(),
                "usize" => "size_t".into(),
                "f64" => "double".into(),
                "c_char" => "char".into(),
                "c_void" => "void".into(),
                "Str" => "const char *".into(),
                "Data" => "const void *".into(),
                "ErrorOut" => "stripline_error **".into(),
                // A function pointer that may be NULL.
                "Option" => c_type(inner(last)),
                // The pointers of `src/border.rs`.
                "Ref" => pointer(true, inner(last)),
                "Handle" | "Out" => pointer(false, inner(last)),
                name => format!("stripline_{}", snake(name)),
            }
        }
        _ => panic!("a type that C does not have"),
    }
}

/// Returns a pointer to a Rust type in C syntax.
fn pointer(is_const: bool, target: &Type) -> String {
    let target = c_type(target);
    match (is_const, target.ends_with('*')) {
        (false, true) => format!("{target}*"),
        (false, false) => format!("{target} *"),
        (true, false) => format!("const {target} *"),
        // A pointer to a constant pointer.
        (true, true) => format!("{target}const *"),
    }
}

/// Returns the parameter of a generic type.
fn inner(of: &syn::PathSegment) -> &Type {
    let syn::PathArguments::AngleBracketed(inner) = &of.arguments else { panic!("of what?") };
    let Some(syn::GenericArgument::Type(inner)) = inner.args.first() else { panic!("of what?") };
    inner
}

/// Returns a name in lower case, with underscores between words.
pub fn snake(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}
