//! Tests of the errors, with their texts and places, and of the code generated from a valid trait.
//! `crates/stripline/tests/calls/traits.rs` tests that this code compiles and works.

use std::str::FromStr;

use proc_macro2::TokenStream;

use super::*;

/// Returns the errors: the text of each, and the source at which it points.
fn refused(arguments: &str, item: &str) -> Vec<(String, String)> {
    let tokens = |text| TokenStream::from_str(text).unwrap();
    let error = match Interface::parse(tokens(arguments), tokens(item)) {
        Ok(interface) => panic!("`{}` was taken for a service", interface.name),
        Err(error) => error,
    };
    error.into_iter().map(|one| (one.to_string(), one.span().source_text().unwrap_or_default())).collect()
}

/// Asserts that a function of a trait is refused once, at this place and with these words.
fn function_refused(function: &str, at: &str, words: &str) {
    let found = refused("", &format!("pub trait Tuner {{ {function} }}"));
    assert!(
        matches!(&found[..], [(said, place)] if said.contains(words) && place == at),
        "`{function}`: {found:?}"
    );
}

fn interface(arguments: &str, item: &str) -> Interface {
    Interface::parse(arguments.parse().unwrap(), item.parse().unwrap()).unwrap()
}

#[test]
fn functions_that_cannot_be_operations_are_pointed_at() {
    for (function, at, words) in [
        ("fn tune(&mut self);", "&mut self", "keep changing state in a `Mutex` or an atomic"),
        ("fn tune(self);", "self", "takes `&self`: it is called more than once"),
        ("fn tune(self: Arc<Self>);", "self: Arc<Self>", "takes `&self`: it is called more than once"),
        ("fn tune(hz: f64);", "tune", "takes `&self` first"),
        ("fn tune<T>(&self, hz: T);", "T", "cannot be generic"),
        ("fn tune<'a>(&self);", "'a", "cannot be generic"),
        ("fn tune(&self) where u8: Copy;", "where u8: Copy", "cannot have conditions"),
        ("async fn tune(&self);", "async", "callers that do not want to wait use the client's `start_…`"),
        ("unsafe fn tune(&self);", "unsafe", "its callers are in other processes"),
        ("const fn tune(&self);", "const", "remove the word"),
        ("extern \"C\" fn tune(&self);", "extern \"C\"", "has no ABI"),
        ("fn tune(&self, band: &str);", "&", "take `String` for `&str`"),
        ("fn tune(&self, bands: Vec<&str>);", "&", "take `String` for `&str`"),
        ("fn tune(&self, c: &mut Context<'_>);", "&", "only `&Context<'_>` is allowed"),
        ("fn tune(&self, band: Cow<'_, str>);", "_", "cannot borrow anything"),
        ("fn tune(&self, hz: impl Into<f64>);", "impl", "callers need an argument's type"),
        ("fn bands(&self) -> Box<dyn Iterator<Item = u8>>;", "dyn", "callers need a reply's type"),
        ("fn copy(&self) -> Self;", "Self", "callers have no `Self`"),
        ("fn name(&self) -> &str;", "&", "a reply goes to another process"),
        ("fn name(&self) -> Result<u8, &str>;", "&", "an error goes to another process"),
        ("fn tune(&self) -> io::Result<u8>;", "io::Result<u8>", "write both types out"),
        ("fn tune(&self, (low, high): (f64, f64));", "(low, high)", "give the argument a name"),
        ("fn tune(&self, _: f64);", "_", "give the argument a name"),
        ("fn tune(&self, #[cfg(test)] hz: f64);", "#[cfg(test)]", "use `Option`"),
        ("fn tune(&self, a: &Context<'_>, b: &Context<'_>);", "tune", "one `&Context` at most"),
        ("fn connect(&self);", "connect", "every client has a function `connect`"),
        ("fn tune(&self); fn start_tune(&self);", "start_tune", "the client's `start_tune` would be of"),
        ("fn with(&self);", "with", "every client has a function `with`"),
        ("fn größe(&self) -> f64;", "größe", "`größe` cannot be the name of an operation"),
        ("fn tune(&self); const MAX: f64;", "const MAX: f64;", "a service has functions only"),
        ("fn tune(&self); type Band;", "type Band;", "a service has functions only"),
    ] {
        function_refused(function, at, words);
    }
    let seventeen: String = (0..17).map(|n| format!("a{n}: u8, ")).collect();
    function_refused(&format!("fn tune(&self, {seventeen});"), "a16", "put them into a structure");
}

#[test]
fn traits_that_cannot_be_services_are_pointed_at() {
    let one = "{ fn tune(&self); }";
    let many: String = (0..129).map(|n| format!("fn f{n}(&self);")).collect();
    for (arguments, item, at, words) in [
        ("", format!("trait Tuner<T> {one}"), "T", "a service cannot be generic"),
        ("", format!("trait Tuner where Self: Sized {one}"), "where Self: Sized", "cannot have conditions"),
        ("", format!("unsafe trait Tuner {one}"), "unsafe", "a service cannot be unsafe"),
        ("", "trait Tuner {}".into(), "Tuner", "has one operation at least"),
        ("", format!("trait Tuner {{ {many} }}"), "f128", "has 128 operations at most"),
        ("", "struct Tuner;".into(), "struct", "put the attribute above one"),
        (
            "name = \"two words\"",
            format!("trait Tuner {one}"),
            "\"two words\"",
            "cannot be the name of a service",
        ),
        ("nmae = \"tuner\"", format!("trait Tuner {one}"), "nmae", "takes a name and nothing else"),
        ("\"tuner\"", format!("trait Tuner {one}"), "\"tuner\"", "takes a name and nothing else"),
    ] {
        let found = refused(arguments, &item);
        assert!(
            matches!(&found[..], [(said, place)] if said.contains(words) && place == at),
            "`{item}`: {found:?}"
        );
    }
}

#[test]
fn all_mistakes_are_named_at_once() {
    let item = "trait Tuner<T> { fn tune(&mut self, band: &str); async fn stop(&self); }";
    let places: Vec<_> = refused("", item).into_iter().map(|(_, place)| place).collect();
    assert_eq!(places, ["T", "&mut self", "&", "async"]);
}

#[test]
fn a_trait_that_is_refused_stays() {
    let written = service_of(TokenStream::new(), "trait Tuner { fn tune(self); }".parse().unwrap());
    let written = written.to_string();
    assert!(written.starts_with("trait Tuner") && written.contains("compile_error"), "{written}");
}

#[test]
fn names_follow_from_the_trait_or_are_given() {
    let name = |arguments, ident| interface(arguments, &format!("trait {ident} {{ fn f(&self); }}")).name;
    for (ident, kebab) in [
        ("Tuner", "tuner"),
        ("SignalTuner", "signal-tuner"),
        ("IQSource", "iq-source"),
        ("AdsBDecoder2", "ads-b-decoder2"),
        ("FM", "fm"),
    ] {
        assert_eq!(name("", ident), kebab);
    }
    assert_eq!(name("name = \"vhf.tuner\"", "Tuner"), "vhf.tuner");
}

#[test]
fn operations_are_what_the_functions_say() {
    let item = "pub trait Tuner {
        /// Tunes.
        #[cfg(unix)]
        fn tune(&self, hz: f64, gain: Option<f32>, context: &call::Context<'_>) -> Result<f64, TuneError>;
        fn r#match(&self, band: Cow<'static, str>) -> Status;
        fn reset(&self) {}
    }";
    let interface = interface("", item);
    let [tune, matches, reset] = &interface.operations[..] else { panic!("there are three") };
    assert_eq!((tune.docs.len(), tune.conditions.len(), tune.sent().count()), (1, 1, 2));
    assert!(tune.wants_context() && tune.error.is_some());
    assert_eq!(matches.name, "match");
    assert_eq!(matches.names().start.to_string(), "start_match");
    assert!(matches.error.is_none() && !matches.wants_context());
    assert_eq!(reset.sent().count(), 0);
    // The generated code parses as items.
    let written = syn::parse2::<syn::File>(expand::service(&interface)).unwrap();
    let structures = written.items.iter().filter_map(|item| match item {
        syn::Item::Struct(structure) => Some(structure.ident.to_string()),
        _ => None,
    });
    assert_eq!(structures.collect::<Vec<_>>(), ["TunerService", "TunerClient", "TunerClientView"]);
}
