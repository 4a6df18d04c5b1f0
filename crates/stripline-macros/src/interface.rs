//! The parser of a service trait, which reports every mistake at its place in the source.

use proc_macro2::{Delimiter, Ident, Span, TokenStream, TokenTree};
use quote::{ToTokens, format_ident};
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{
    Attribute, Error, FnArg, GenericArgument, Generics, ItemTrait, LitStr, Pat, PathArguments, Receiver,
    ReceiverKind, Result, ReturnType, Safety, Signature, Token, TraitItem, TraitItemFn, Type, TypeParamBound,
    Visibility, parse_quote,
};

/// The same as `stripline::call::Operation::NAME_MAX`.
const NAME_MAX: usize = 64;
/// The same as `stripline::call::Service::OPERATIONS_MAX`.
const OPERATIONS_MAX: usize = 128;
/// The longest tuple that can be serialised.
const ARGUMENTS_MAX: usize = 16;
/// Functions that every client has in addition to the functions for operations.
const OF_EVERY_CLIENT: [&str; 3] = ["connect", "client", "with"];

/// A trait that can be a service.
pub(crate) struct Interface {
    pub vis: Visibility,
    pub ident: Ident,
    pub supertraits: Punctuated<TypeParamBound, Token![+]>,
    /// The name of the service.
    pub name: String,
    pub operations: Vec<Operation>,
}

/// A function of the trait.
pub(crate) struct Operation {
    pub ident: Ident,
    /// The name on the wire.
    pub name: String,
    /// The `cfg` attributes of the function.
    pub conditions: Vec<Attribute>,
    pub docs: Vec<Attribute>,
    pub arguments: Vec<Argument>,
    pub reply: Type,
    /// The type of the operation's errors, if it has any.
    pub error: Option<Type>,
}

/// An argument of a function.
pub(crate) enum Argument {
    /// Part of the request.
    Sent(Ident, Box<Type>),
    /// The context of the call, which the server provides.
    Context,
}

/// The names derived from an operation: the functions of the client, and parts of their names.
pub(crate) struct Names {
    pub call: Ident,
    pub start: Ident,
    pub field: Ident,
}

impl Interface {
    /// Parses the interface from an item that has the attribute.
    ///
    /// # Errors
    /// Every reason why the item cannot be a service.
    pub(crate) fn parse(arguments: TokenStream, item: TokenStream) -> Result<Self> {
        let span = item.clone().into_iter().next().map_or_else(Span::call_site, |first| first.span());
        let item: ItemTrait = syn::parse2(item)
            .map_err(|_| Error::new(span, "a service is made of a trait: put the attribute above one"))?;
        let mut problems = Problems::default();
        let name = problems.take(service_name(arguments, &item.ident));
        if let Some(unsafety) = item.unsafety {
            problems.note(unsafety, "a service cannot be unsafe: its callers are in other processes");
        }
        problems.check_generics(&item.generics, "a service");
        let mut operations: Vec<Operation> = Vec::new();
        for item in item.items {
            match item {
                TraitItem::Fn(function) => operations.extend(problems.operation(function)),
                other => {
                    problems.note(other, "a service has functions only: move this to a trait of its own");
                }
            }
        }
        problems.check_names(&operations);
        if operations.is_empty() && problems.0.is_none() {
            problems
                .note(&item.ident, "a service has one operation at least: add a function that takes `&self`");
        }
        if let Some(extra) = operations.get(OPERATIONS_MAX) {
            let words = format!("a service has {OPERATIONS_MAX} operations at most: split it in two");
            problems.note(&extra.ident, words);
        }
        match (problems.0, name) {
            (None, Some(name)) => {
                Ok(Self { vis: item.vis, ident: item.ident, supertraits: item.supertraits, name, operations })
            }
            (problems, _) => Err(problems.unwrap_or_else(|| Error::new(span, "it is not a service"))),
        }
    }
}

impl Operation {
    pub(crate) fn names(&self) -> Names {
        let name = &self.ident;
        let plain = name.unraw();
        Names {
            call: name.clone(),
            start: format_ident!("start_{plain}", span = name.span()),
            field: format_ident!("{plain}_operation", span = name.span()),
        }
    }

    /// Returns the parts of the request, by name and type.
    pub(crate) fn sent(&self) -> impl Iterator<Item = (&Ident, &Type)> {
        self.arguments.iter().filter_map(|argument| match argument {
            Argument::Sent(name, of) => Some((name, &**of)),
            Argument::Context => None,
        })
    }

    pub(crate) fn wants_context(&self) -> bool {
        self.arguments.iter().any(|argument| matches!(argument, Argument::Context))
    }
}

impl Names {
    fn of_client(&self) -> [&Ident; 2] {
        [&self.call, &self.start]
    }
}

/// All problems found, so that the user can correct them in one go.
#[derive(Default)]
pub(crate) struct Problems(Option<Error>);

impl Problems {
    pub(crate) fn note(&mut self, at: impl ToTokens, words: impl std::fmt::Display) {
        self.add(Error::new_spanned(at, words));
    }

    fn add(&mut self, error: Error) {
        match &mut self.0 {
            Some(before) => before.combine(error),
            none => *none = Some(error),
        }
    }

    /// Returns the value, or records the error.
    pub(crate) fn take<T>(&mut self, outcome: Result<T>) -> Option<T> {
        outcome.map_err(|error| self.add(error)).ok()
    }

    /// Returns all problems as an error, if there are any.
    pub(crate) fn finish(self) -> Result<()> {
        self.0.map_or(Ok(()), Err)
    }

    fn check_generics(&mut self, generics: &Generics, whose: &str) {
        if !generics.params.is_empty() {
            self.note(
                &generics.params,
                format!("{whose} cannot be generic: its callers are other programs; write the types out"),
            );
        }
        if let Some(clause) = &generics.where_clause {
            self.note(clause, format!("{whose} cannot have conditions: write the types out"));
        }
    }

    /// Parses a function as an operation, if it can be one.
    fn operation(&mut self, function: TraitItemFn) -> Option<Operation> {
        let TraitItemFn { attrs, sig, .. } = function;
        let name = sig.ident.unraw().to_string();
        if let Err(words) = check_name("an operation", &name) {
            self.note(&sig.ident, words);
        }
        self.check_qualifiers(&sig);
        self.check_generics(&sig.generics, "an operation");
        match sig.receiver() {
            Some(receiver) => self.check_receiver(receiver),
            None => self.note(&sig.ident, "an operation takes `&self` first"),
        }
        let arguments: Vec<_> = sig.inputs.into_iter().filter_map(|input| self.argument(input)).collect();
        let (reply, error) = self.reply(sig.output)?;
        let docs = attrs.iter().filter(|attr| attr.path().is_ident("doc")).cloned().collect();
        let conditions = attrs.into_iter().filter(|attr| attr.path().is_ident("cfg")).collect();
        let operation = Operation { ident: sig.ident, name, conditions, docs, arguments, reply, error };
        if let Some((extra, _)) = operation.sent().nth(ARGUMENTS_MAX) {
            let words =
                format!("an operation has {ARGUMENTS_MAX} arguments at most: put them into a structure");
            self.note(extra, words);
        }
        let contexts = operation.arguments.iter().filter(|sent| matches!(sent, Argument::Context)).count();
        if contexts > 1 {
            self.note(&operation.ident, "an operation has one `&Context` at most");
        }
        Some(operation)
    }

    fn check_qualifiers(&mut self, sig: &Signature) {
        if let Some(asyncness) = sig.asyncness {
            self.note(
                asyncness,
                "an operation is not `async`: a server runs it on a thread of its own; callers that do not want to wait use \
                 the client's `start_…`",
            );
        }
        if let Some(constness) = sig.constness {
            self.note(constness, "an operation is not `const`: remove the word");
        }
        if let Safety::Unsafe(unsafety) = &sig.safety {
            self.note(unsafety, "an operation is not `unsafe`: its callers are in other processes");
        }
        if let Some(abi) = &sig.abi {
            self.note(abi, "an operation has no ABI: remove it");
        }
    }

    fn check_receiver(&mut self, receiver: &Receiver) {
        match &receiver.kind {
            ReceiverKind::Reference(_, None, None) => {}
            ReceiverKind::Reference(_, _, Some(_)) => self.note(
                receiver,
                "an operation takes `&self`: several clients may call at once; keep changing state in a `Mutex` or an atomic",
            ),
            _ => self.note(receiver, "an operation takes `&self`: it is called more than once"),
        }
    }

    fn argument(&mut self, input: FnArg) -> Option<Argument> {
        let FnArg::Typed(input) = input else { return None };
        if let Some(condition) = input.attrs.iter().find(|attr| attr.path().is_ident("cfg")) {
            self.note(condition, "the parts of a request cannot depend on conditions: use `Option`");
        }
        if is_context(&input.ty) {
            return Some(Argument::Context);
        }
        self.check_type(&input.ty, "an argument");
        match *input.pat {
            Pat::Ident(named) if named.subpat.is_none() => Some(Argument::Sent(named.ident, input.ty)),
            other => {
                self.note(other, "give the argument a name: clients have it too");
                None
            }
        }
    }

    /// Returns the type of the reply and the type of the operation's errors.
    fn reply(&mut self, output: ReturnType) -> Option<(Type, Option<Type>)> {
        let ReturnType::Type(_, returned) = output else { return Some((parse_quote!(()), None)) };
        let Some(arguments) = arguments_of_result(&returned) else {
            self.check_type(&returned, "a reply");
            return Some((*returned, None));
        };
        let [reply, error] = &arguments[..] else {
            self.note(&returned, "write both types out, `Result<Reply, Error>`: callers need the error's");
            return None;
        };
        self.check_type(reply, "a reply");
        self.check_type(error, "an error");
        Some((reply.clone(), Some(error.clone())))
    }

    /// Reports the first part of a type that cannot be sent to another process, as far as the
    /// tokens show this.
    fn check_type(&mut self, of: &Type, what: &str) {
        if let Some((at, words)) = unsendable(of.to_token_stream(), what) {
            self.note(at, words);
        }
    }

    /// Reports operations that would give two functions of the client the same name.
    fn check_names(&mut self, operations: &[Operation]) {
        let all: Vec<_> = operations.iter().map(Operation::names).collect();
        for (index, names) in all.iter().enumerate() {
            let own = names.call.unraw();
            if OF_EVERY_CLIENT.iter().any(|taken| own == taken) {
                self.note(&names.call, format!("every client has a function `{own}`: choose another name"));
            }
            for other in all[..index].iter().filter(|other| other.call != names.call) {
                let taken = names.of_client().into_iter().find(|name| other.of_client().contains(name));
                if let Some(taken) = taken {
                    let (one, other) = (&names.call, &other.call);
                    let words =
                        format!("the client's `{taken}` would be of `{one}` and of `{other}`: rename one");
                    self.note(one, words);
                }
            }
        }
    }
}

/// Returns the first token of a type that prevents sending it to another process, and why.
fn unsendable(tokens: TokenStream, what: &str) -> Option<(TokenTree, String)> {
    let mut after_quote = false;
    for token in tokens {
        let words = match &token {
            TokenTree::Punct(sign) if sign.as_char() == '&' => format!(
                "{what} goes to another process, and a reference cannot: take `String` for `&str`, `Vec<T>` or \
                 `Samples<T>` for `&[T]`, `T` for `&T` (only `&Context<'_>` is allowed)"
            ),
            TokenTree::Ident(word) if after_quote && word != "static" => {
                format!("{what} goes to another process: it cannot borrow anything")
            }
            TokenTree::Ident(word) if word == "impl" || word == "dyn" => {
                format!("callers need {what}'s type: write it out")
            }
            TokenTree::Ident(word) if word == "Self" => {
                format!("callers have no `Self`: write {what}'s type out")
            }
            TokenTree::Group(group) if group.delimiter() != Delimiter::Brace => {
                match unsendable(group.stream(), what) {
                    None => continue,
                    found => return found,
                }
            }
            other => {
                after_quote = matches!(other, TokenTree::Punct(sign) if sign.as_char() == '\'');
                continue;
            }
        };
        return Some((token, words));
    }
    None
}

/// Returns the name of the service: the name given as `name = "…"`, or else the name of the trait.
fn service_name(arguments: TokenStream, ident: &Ident) -> Result<String> {
    struct NameArgument(Option<LitStr>);

    impl syn::parse::Parse for NameArgument {
        fn parse(input: syn::parse::ParseStream<'_>) -> Result<Self> {
            if input.is_empty() {
                return Ok(Self(None));
            }
            let known =
                "the attribute takes a name and nothing else: `#[stripline::service(name = \"tuner\")]`";
            let key: Ident = input.parse().map_err(|error| Error::new(error.span(), known))?;
            if key != "name" {
                return Err(Error::new_spanned(key, known));
            }
            input.parse::<Token![=]>()?;
            let name = input.parse()?;
            input.parse::<Option<Token![,]>>()?;
            if input.is_empty() { Ok(Self(Some(name))) } else { Err(input.error(known)) }
        }
    }

    let NameArgument(given) = syn::parse2(arguments)?;
    let (name, span) = match &given {
        Some(given) => (given.value(), given.span()),
        None => (kebab(&ident.unraw().to_string()), ident.span()),
    };
    check_name("a service", &name).map_err(|words| Error::new(span, words))?;
    Ok(name)
}

/// Checks a name by the rules that the library applies at run time.
fn check_name(what: &str, name: &str) -> std::result::Result<(), String> {
    let sound = !name.is_empty()
        && name.len() <= NAME_MAX
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if sound {
        return Ok(());
    }
    Err(format!("`{name}` cannot be the name of {what}: use 1 to {NAME_MAX} letters, digits, `-`, `_`, `.`"))
}

/// Converts a name to kebab case: `SignalTuner` to `signal-tuner`, `IQSource2` to `iq-source2`.
fn kebab(name: &str) -> String {
    let letters: Vec<char> = name.chars().collect();
    let mut kebab = String::new();
    for (at, &letter) in letters.iter().enumerate() {
        let follows_lower = at > 0 && !letters[at - 1].is_uppercase() && letters[at - 1] != '_';
        let begins_word = at > 0 && letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        if letter == '_' {
            kebab.push('-');
            continue;
        }
        if letter.is_uppercase() && (follows_lower || begins_word) && !kebab.ends_with('-') {
            kebab.push('-');
        }
        kebab.extend(letter.to_lowercase());
    }
    kebab
}

fn is_context(of: &Type) -> bool {
    let Type::Reference(reference) = of else { return false };
    let Type::Path(path) = &*reference.elem else { return false };
    reference.mutability.is_none() && path.path.segments.last().is_some_and(|last| last.ident == "Context")
}

/// Returns the types in `Result<…>`, if the type is a `Result`.
fn arguments_of_result(of: &Type) -> Option<Vec<Type>> {
    let Type::Path(path) = of else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return Some(Vec::new()) };
    let types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(argument_type) => Some(argument_type.clone()),
        _ => None,
    });
    Some(types.collect())
}
