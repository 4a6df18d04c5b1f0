//! `#[derive(stripline::Message)]`: checks a structure or an enum, and generates the schema.

use proc_macro2::{Ident, TokenStream};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::meta::ParseNestedMeta;
use syn::{
    Attribute, Data, DataEnum, DeriveInput, Error, Field, Fields, LitStr, Path, Result, Token, Type, Variant,
};

use crate::interface::Problems;
use crate::rename::Case;

/// The same as `stripline::payload::Schema::NAME_MAX`.
const NAME_MAX: usize = 56;
/// The maximum length of the name of a field or variant:
/// `stripline::payload::TypeName::LENGTH_MAX`.
const MEMBER_MAX: usize = 64;
/// The same as `stripline::payload::Schema::BUILT_IN`.
const BUILT_IN: [&str; 15] = [
    "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64", "bool", "text", "bytes", "null",
    "any",
];
/// The alternative for a type that a schema cannot describe.
const WAY_ROUND: &str = "implement stripline::payload::MessageSchema by hand, or use a port without a schema";

/// A structure or an enum with a schema.
pub(crate) struct MessageType {
    ident: Ident,
    pub name: String,
    body: Body,
}

/// The content of the brackets.
enum Body {
    /// Only for a variant.
    Unit,
    Values(Vec<Type>),
    /// Each field has a name, and a flag that is set if the field may be left out.
    Fields(Vec<(String, bool, Type)>),
    Variants(Vec<(String, Body)>),
}

impl MessageType {
    /// Parses the item to which the derive is attached.
    ///
    /// # Errors
    /// Every reason why the item cannot be described.
    pub(crate) fn parse(item: TokenStream) -> Result<Self> {
        let item: DeriveInput = syn::parse2(item)?;
        let mut problems = Problems::default();
        if !item.generics.params.is_empty() {
            let why = "a message with a schema cannot be generic: write the types out";
            problems.note(&item.generics, format!("{why}; or {WAY_ROUND}"));
        }
        let name = problems.take(name_of(&item));
        let options = problems.take(SerdeOptions::of(&item.attrs, Place::Container)).unwrap_or_default();
        let body = match &item.data {
            Data::Struct(data) => body_of(&data.fields, &options, &mut problems),
            Data::Enum(data) => variants_of(data, &options, &mut problems),
            Data::Union(data) => {
                problems.note(data.union_token, "serde has no unions: use a struct or an enum");
                Body::Unit
            }
        };
        problems.finish()?;
        // In CBOR, a structure without fields is a null.
        let body = if matches!(body, Body::Unit) { Body::Values(Vec::new()) } else { body };
        let name = name.ok_or_else(|| Error::new_spanned(&item.ident, "cannot be a message"))?;
        Ok(Self { ident: item.ident, name, body })
    }

    /// Generates the implementation.
    pub(crate) fn expand(&self) -> TokenStream {
        let Self { ident, name, body } = self;
        let body = body.expand();
        quote! {
            impl ::stripline::payload::MessageSchema for #ident {
                fn schema() -> ::stripline::payload::Schema {
                    use ::stripline::payload::DerivedSchema as __Derived;
                    #body.named(#name)
                }
            }
        }
    }
}

impl Body {
    fn expand(&self) -> TokenStream {
        let schema = |of: &Type| quote!(<#of as ::stripline::payload::MessageSchema>::schema);
        match self {
            Self::Unit => quote!(__Derived::Unit),
            Self::Values(types) => {
                let values = types.iter().map(schema);
                quote!(__Derived::Values(&[#(#values),*]))
            }
            Self::Fields(fields) => {
                let fields = fields.iter().map(|(name, may_be_missing, of)| {
                    let name = format!("{name}{}", if *may_be_missing { "?" } else { "" });
                    let schema = schema(of);
                    quote!((#name, #schema))
                });
                quote!(__Derived::Fields(&[#(#fields),*]))
            }
            Self::Variants(variants) => {
                let variants = variants.iter().map(|(name, body)| {
                    let body = body.expand();
                    quote!((#name, #body))
                });
                quote!(__Derived::Variants(&[#(#variants),*]))
            }
        }
    }
}

fn variants_of(data: &DataEnum, options: &SerdeOptions, problems: &mut Problems) -> Body {
    let mut variants = Vec::new();
    for variant in &data.variants {
        let Some(own) = problems.take(SerdeOptions::of(&variant.attrs, Place::Variant)) else { continue };
        if own.skip {
            continue;
        }
        let written = own.name_of(&variant.ident, |ident| match options.rename_all {
            Some(case) => case.of_variant(ident),
            None => ident.into(),
        });
        let Some(name) = problems.take(member(&variant.ident, written)) else { continue };
        variants.push((name, body_of(&variant.fields, &own, problems)));
    }
    let is_skipped =
        |variant: &Variant| SerdeOptions::of(&variant.attrs, Place::Variant).is_ok_and(|own| own.skip);
    if data.variants.iter().all(is_skipped) {
        problems.note(variant_place(data), "a message needs a variant: this enum has no values");
    }
    Body::Variants(variants)
}

fn variant_place(data: &DataEnum) -> TokenStream {
    data.variants.iter().next().map_or(data.enum_token.to_token_stream(), Variant::to_token_stream)
}

fn body_of(fields: &Fields, options: &SerdeOptions, problems: &mut Problems) -> Body {
    match fields {
        Fields::Unit => Body::Unit,
        Fields::Unnamed(unnamed) => {
            let mut types = Vec::new();
            for field in &unnamed.unnamed {
                match problems.take(SerdeOptions::of(&field.attrs, Place::Field)) {
                    Some(own) if own.skip || own.may_be_missing => {
                        problems
                            .note(field, format!("a value without a name cannot be left out: {WAY_ROUND}"));
                    }
                    _ => types.push(field.ty.clone()),
                }
            }
            if types.is_empty() && unnamed.unnamed.is_empty() {
                problems.note(fields, "a message without values is written without brackets");
            }
            Body::Values(types)
        }
        Fields::Named(named) => {
            Body::Fields(named.named.iter().filter_map(|field| field_of(field, options, problems)).collect())
        }
    }
}

fn field_of(field: &Field, options: &SerdeOptions, problems: &mut Problems) -> Option<(String, bool, Type)> {
    let own = problems.take(SerdeOptions::of(&field.attrs, Place::Field))?;
    let ident = field.ident.as_ref().filter(|_| !own.skip)?;
    let written = own.name_of(ident, |ident| match options.rename_all {
        Some(case) => case.of_field(ident),
        None => ident.into(),
    });
    Some((problems.take(member(ident, written))?, own.may_be_missing, field.ty.clone()))
}

/// Checks the name of a field or a variant.
fn member(ident: &Ident, name: String) -> Result<String> {
    let letter = |b: u8| b.is_ascii_alphabetic() || b == b'_';
    let fits = name.bytes().next().is_some_and(letter)
        && name.len() <= MEMBER_MAX
        && name.bytes().all(|b| letter(b) || b.is_ascii_digit() || b == b'-');
    if fits {
        return Ok(name);
    }
    let why = format!(
        "`{name}` is not a name in a schema: use 1 to {MEMBER_MAX} of a-z, A-Z, 0-9, `_`, `-`, not beginning with a digit"
    );
    Err(Error::new_spanned(ident, format!("{why}; or {WAY_ROUND}")))
}

/// Returns the name in `#[message(name = "...")]`, or else the name of the type in lower case.
fn name_of(item: &DeriveInput) -> Result<String> {
    let mut given: Option<LitStr> = None;
    for attribute in item.attrs.iter().filter(|a| a.path().is_ident("message")) {
        attribute.parse_nested_meta(|meta| {
            if !meta.path.is_ident("name") {
                return Err(meta.error("`message` takes a name only: `#[message(name = \"detection\")]`"));
            }
            if given.is_some() {
                return Err(meta.error("a message has one name"));
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
            "`{name}` is not a valid message name: give one of 1 to {NAME_MAX} of a-z, 0-9, `-`, `/`, `.`, as `#[message(name = \"detection\")]`"
        );
        return Err(Error::new_spanned(place, why));
    }
    if BUILT_IN.contains(&&*name) {
        let why =
            format!("`{name}` is a built-in kind: give another name, as `#[message(name = \"detection\")]`");
        return Err(Error::new_spanned(place, why));
    }
    Ok(name)
}

/// The place of a serde attribute.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Container,
    Variant,
    Field,
}

/// The serde attributes that change the sent form.
#[derive(Default)]
struct SerdeOptions {
    rename: Option<String>,
    rename_all: Option<Case>,
    skip: bool,
    may_be_missing: bool,
}

impl SerdeOptions {
    /// Reads all serde attributes of an item.
    ///
    /// # Errors
    /// The attributes that cannot be described.
    fn of(attributes: &[Attribute], place: Place) -> Result<Self> {
        let mut options = Self::default();
        for attribute in attributes.iter().filter(|a| a.path().is_ident("serde")) {
            attribute.parse_nested_meta(|meta| options.read(&meta, place))?;
        }
        Ok(options)
    }

    fn read(&mut self, meta: &ParseNestedMeta, place: Place) -> Result<()> {
        let Some(word) = meta.path.get_ident().map(Ident::to_string) else {
            return Err(refused(&meta.path));
        };
        match (word.as_str(), place) {
            // The name of the container does not change the CBOR, nor do attributes that only the
            // receiver uses.
            ("rename", Place::Container) | ("default" | "bound" | "crate" | "expecting" | "alias", _) => {
                skip_value(meta)
            }
            ("deny_unknown_fields", Place::Container) => Ok(()),
            ("rename", _) => {
                self.rename = Some(text_of(meta)?.value());
                Ok(())
            }
            ("rename_all", Place::Container | Place::Variant) => {
                let text = text_of(meta)?;
                self.rename_all = Some(Case::parse(&text)?);
                Ok(())
            }
            ("skip", Place::Variant | Place::Field) => {
                self.skip = true;
                Ok(())
            }
            ("skip_serializing_if", Place::Field) => {
                self.may_be_missing = true;
                skip_value(meta)
            }
            _ => Err(refused(&meta.path)),
        }
    }

    /// Returns the name that the CBOR has.
    fn name_of(&self, ident: &Ident, by_rule: impl FnOnce(&str) -> String) -> String {
        self.rename.clone().unwrap_or_else(|| by_rule(&ident.unraw().to_string()))
    }
}

fn refused(path: &Path) -> Error {
    let word = path.to_token_stream().to_string();
    Error::new_spanned(path, format!("a schema cannot describe serde's `{word}`: {WAY_ROUND}"))
}

/// Returns the text of `key = "text"`.
fn text_of(meta: &ParseNestedMeta) -> Result<LitStr> {
    if !meta.input.peek(Token![=]) {
        let words = "has two names here, and a schema describes one: write one name for both directions";
        return Err(Error::new_spanned(
            &meta.path,
            format!("`{}` {words}; or {WAY_ROUND}", meta.path.to_token_stream()),
        ));
    }
    meta.value()?.parse()
}

/// Takes the value of a key, if there is one.
fn skip_value(meta: &ParseNestedMeta) -> Result<()> {
    if meta.input.peek(Token![=]) {
        meta.value()?.parse::<syn::Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let inside;
        syn::parenthesized!(inside in meta.input);
        inside.parse::<TokenStream>()?;
    }
    Ok(())
}
