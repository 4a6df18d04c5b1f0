//! `#[derive(stripline::Sample)]`: checks a structure, and generates the layout.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Error, Fields, Item, ItemStruct, LitStr, Result, Type};

use crate::interface::Problems;

/// The same as `stripline::payload::TypeName::LENGTH_MAX`.
const NAME_MAX: usize = 64;
/// The same as `stripline::payload::Layout::FIELDS_MAX`.
const FIELDS_MAX: usize = 256;
/// The names of the built-in types, without the prefix `c` of pairs.
const BUILT_IN: [&str; 10] = ["u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64"];

/// A structure that can be a sample, as far as the tokens show this.
pub(crate) struct SampleStruct {
    ident: Ident,
    pub name: String,
    fields: Vec<(Ident, Type)>,
}

impl SampleStruct {
    /// Parses the item to which the derive is attached.
    ///
    /// # Errors
    /// Every reason why the item cannot be a sample.
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        let item = match syn::parse2(item)? {
            Item::Struct(item) => item,
            Item::Enum(item) => {
                return Err(Error::new_spanned(
                    item.enum_token,
                    "an enum cannot be a sample: not every number is one of its values; send the number",
                ));
            }
            other => {
                return Err(Error::new_spanned(
                    other,
                    "only a struct can be a sample: write its fields one behind the other",
                ));
            }
        };
        let mut problems = Problems::default();
        if !item.generics.params.is_empty() {
            problems.note(
                &item.generics,
                "a sample cannot be generic: both ends compare its layout; write the types out",
            );
        }
        problems.take(check_representation(&item));
        let name = problems.take(name_of(&item));
        let fields = problems.take(fields_of(&item));
        problems.finish()?;
        let (Some(name), Some(fields)) = (name, fields) else {
            return Err(Error::new_spanned(item, "cannot be a sample"));
        };
        Ok(Self { ident: item.ident, name, fields })
    }

    /// Generates the implementations.
    pub(crate) fn expand(&self) -> TokenStream {
        let Self { ident, name, fields } = self;
        let payload = quote!(::stripline::payload);
        let bytemuck = quote!(::stripline::internal::bytemuck);
        let sizes = fields.iter().map(|(_, of)| quote!(+ ::core::mem::size_of::<#of>()));
        let padding = format!(
            "`{ident}` has padding: order its fields from wide to narrow, or fill the space with fields"
        );
        let padded = quote_spanned!(ident.span()=>
            const _: () = ::core::assert!(::core::mem::size_of::<#ident>() == 0 #(#sizes)*, #padding);
        );
        let checks = fields.iter().map(|(_, of)| quote_spanned!(of.span()=> __is_field::<#of>();));
        let forms = fields.iter().map(|(field, of)| {
            let field = field.unraw().to_string();
            quote!((#field, <#of as #payload::SampleField>::form()))
        });
        quote! {
            const _: () = {
                fn __is_field<T: #payload::SampleField>() {}
                #[allow(dead_code)]
                fn __check() { #(#checks)* }
                #padded

                // SAFETY: the type is `repr(C)` without generics, every field is `Pod` (`__check`),
                // and there is no padding between or behind the fields (the assertion).
                unsafe impl #bytemuck::Zeroable for #ident {}
                // SAFETY: as above.
                unsafe impl #bytemuck::Pod for #ident {}

                impl #payload::SampleField for #ident {
                    fn form() -> (::std::vec::Vec<usize>, #payload::Layout) {
                        (::std::vec::Vec::new(), #payload::derived_layout::<Self>())
                    }
                }

                impl ::stripline::Sample for #ident {
                    const TYPE: &'static str = #name;
                    fn layout() -> ::core::option::Option<#payload::Layout> {
                        ::core::option::Option::Some(#payload::layout_of_fields(#name, [#(#forms),*]))
                    }
                }
            };
        }
    }
}

/// Checks that the representation is `repr(C)` and nothing else.
fn check_representation(item: &ItemStruct) -> Result<()> {
    let reprs: Vec<&Attribute> = item.attrs.iter().filter(|a| a.path().is_ident("repr")).collect();
    match &reprs[..] {
        [] => Err(Error::new_spanned(
            &item.ident,
            "a sample needs `#[repr(C)]`: without it the compiler orders the fields as it likes",
        )),
        [one] if one.parse_args::<Ident>().is_ok_and(|word| word == "C") => Ok(()),
        [one, ..] => Err(Error::new_spanned(
            one,
            "a sample is `#[repr(C)]` and nothing else: its layout follows from its fields",
        )),
    }
}

/// Returns the name in `#[sample(name = "...")]`, or else the name of the structure in lower case.
fn name_of(item: &ItemStruct) -> Result<String> {
    let mut given: Option<LitStr> = None;
    for attribute in item.attrs.iter().filter(|a| a.path().is_ident("sample")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("`sample` takes a name only: `#[sample(name = \"det\")]`"));
            }
            if given.is_some() {
                return Err(meta.error("a sample has one name"));
            }
            given = Some(meta.value()?.parse()?);
            Ok(())
        })?;
    }
    let (name, place) = match &given {
        Some(text) => (text.value(), text.to_token_stream()),
        None => (item.ident.unraw().to_string().to_lowercase(), item.ident.to_token_stream()),
    };
    let fits = |b: u8| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'/' | b'.');
    if name.is_empty() || name.len() > NAME_MAX || !name.bytes().all(fits) {
        let why = format!(
            "`{name}` is not a valid sample name: give one of 1 to {NAME_MAX} of a-z, 0-9, `-`, `/`, `.`, as `#[sample(name = \"det\")]`"
        );
        return Err(Error::new_spanned(place, why));
    }
    let is_built_in = |name: &str| BUILT_IN.contains(&name);
    if is_built_in(&name) || name.strip_prefix('c').is_some_and(is_built_in) {
        return Err(Error::new_spanned(
            place,
            format!("`{name}` is the name of a built-in type: give another one"),
        ));
    }
    if name.starts_with("message/") {
        return Err(Error::new_spanned(
            place,
            "names that begin with `message/` are for messages: give another one",
        ));
    }
    Ok(name)
}

fn fields_of(item: &ItemStruct) -> Result<Vec<(Ident, Type)>> {
    let Fields::Named(named) = &item.fields else {
        return Err(Error::new_spanned(
            &item.ident,
            "the fields of a sample need names: they are part of its layout",
        ));
    };
    if named.named.is_empty() {
        return Err(Error::new_spanned(&item.ident, "a sample needs a field: an empty one has no bytes"));
    }
    if named.named.len() > FIELDS_MAX {
        return Err(Error::new_spanned(
            &item.ident,
            format!("a sample has at most {FIELDS_MAX} fields: use arrays"),
        ));
    }
    let mut problems = Problems::default();
    let mut fields = Vec::new();
    for field in &named.named {
        let Some(ident) = &field.ident else { continue };
        let name = ident.unraw().to_string();
        if name.len() > NAME_MAX || !name.is_ascii() {
            problems.note(
                ident,
                format!("the name of a sample's field has 1 to {NAME_MAX} of a-z, A-Z, 0-9, `_`"),
            );
        }
        problems.take(check_type(&field.ty));
        fields.push((ident.clone(), field.ty.clone()));
    }
    problems.finish()?;
    Ok(fields)
}

/// Refuses types for which the compiler would give a worse reason. The compiler refuses all others.
fn check_type(of: &Type) -> Result<()> {
    let refuse = |why: &str| Err(Error::new_spanned(of, why));
    match of {
        Type::Array(array) => check_type(&array.elem),
        Type::Group(group) => check_type(&group.elem),
        Type::Paren(paren) => check_type(&paren.elem),
        Type::Reference(_) => {
            refuse("a reference points into its own process: hold the value, or an array of fixed length")
        }
        Type::Ptr(_) | Type::FnPtr(_) => {
            refuse("a pointer points into its own process: hold the value, or an array of fixed length")
        }
        Type::Path(path) if path.qself.is_none() => {
            let Some(last) = path.path.segments.last() else { return Ok(()) };
            match last.ident.to_string().as_str() {
                "bool" => refuse("not every byte is a `bool`: use `u8`"),
                "char" => refuse("not every number is a `char`: use `u32`"),
                "usize" => refuse("`usize` has another size on other machines: use `u64`"),
                "isize" => refuse("`isize` has another size on other machines: use `i64`"),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}
