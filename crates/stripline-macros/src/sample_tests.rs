//! Tests of the errors of `#[derive(stripline::Sample)]`, with their texts and places. The
//! documentation of `stripline::payload::Sample` tests whether the generated code compiles.

use crate::sample::SampleStruct;

fn parse(item: &str) -> Result<SampleStruct, syn::Error> {
    SampleStruct::parse(item.parse().unwrap())
}

fn refused(item: &str) -> Vec<(String, String)> {
    match parse(item) {
        Ok(sample) => panic!("`{}` was taken for a sample", sample.name),
        Err(errors) => errors
            .into_iter()
            .map(|error| (error.to_string(), error.span().source_text().unwrap_or_default()))
            .collect(),
    }
}

#[test]
fn structures_that_cannot_be_samples_are_pointed_at() {
    for (item, at, words) in [
        ("struct A { a: u8 }", "A", "needs `#[repr(C)]`"),
        ("#[repr(transparent)] struct A { a: u8 }", "#[repr(transparent)]", "`#[repr(C)]` and nothing else"),
        ("#[repr(C, packed)] struct A { a: u8 }", "#[repr(C, packed)]", "`#[repr(C)]` and nothing else"),
        ("#[repr(C)] #[repr(align(8))] struct A { a: u64 }", "#[repr(C)]", "`#[repr(C)]` and nothing else"),
        ("#[repr(C)] struct A<T> { a: T }", "<T>", "cannot be generic"),
        ("#[repr(C)] struct A<'a> { a: u8 }", "<'a>", "cannot be generic"),
        ("#[repr(C)] struct A;", "A", "need names"),
        ("#[repr(C)] struct A(u8);", "A", "need names"),
        ("#[repr(C)] struct A {}", "A", "needs a field"),
        ("#[repr(u8)] enum A { B }", "enum", "an enum cannot be a sample"),
        (
            "#[repr(C)] struct A { a: &'static str }",
            "&'static str",
            "a reference points into its own process",
        ),
        ("#[repr(C)] struct A { a: *const u8 }", "*const u8", "a pointer points into its own process"),
        ("#[repr(C)] struct A { a: [fn(); 2] }", "fn()", "a pointer points into its own process"),
        ("#[repr(C)] struct A { a: bool }", "bool", "use `u8`"),
        ("#[repr(C)] struct A { a: [[char; 2]; 2] }", "char", "use `u32`"),
        ("#[repr(C)] struct A { a: usize }", "usize", "use `u64`"),
        ("#[repr(C)] struct A { a: std::primitive::isize }", "std::primitive::isize", "use `i64`"),
        ("#[repr(C)] struct A { \u{e9}: u8 }", "\u{e9}", "has 1 to 64 of a-z"),
        (
            "#[repr(C)] #[sample(name = \"Det\")] struct A { a: u8 }",
            "\"Det\"",
            "`Det` is not a valid sample name",
        ),
        ("#[repr(C)] #[sample(name = \"\")] struct A { a: u8 }", "\"\"", "`` is not a valid sample name"),
        (
            "#[repr(C)] #[sample(name = \"cf32\")] struct A { a: u8 }",
            "\"cf32\"",
            "the name of a built-in type",
        ),
        (
            "#[repr(C)] #[sample(name = \"message/a\")] struct A { a: u8 }",
            "\"message/a\"",
            "are for messages",
        ),
        ("#[repr(C)] #[sample(size = 4)] struct A { a: u8 }", "size", "takes a name only"),
        ("#[repr(C)] #[sample(name = \"a\", name = \"b\")] struct A { a: u8 }", "name", "has one name"),
        ("#[repr(C)] struct A_b { a: u8 }", "A_b", "`a_b` is not a valid sample name"),
    ] {
        let found = refused(item);
        assert!(
            matches!(&found[..], [(text, place)] if text.contains(words) && place == at),
            "`{item}`: {found:?}"
        );
    }
    assert!(refused("#[repr(C)] union A { a: u8 }")[0].0.contains("only a struct can be a sample"));
    assert!(refused("fn a() {}")[0].0.contains("only a struct can be a sample"));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    assert_eq!(refused("#[sample(name = \"Det\")] struct A<T> { a: bool, b: T, c: char }").len(), 5);
    let fields: String = (0..257).map(|n| format!("f{n}: u8,")).collect();
    let found = refused(&format!("#[repr(C)] struct A {{ {fields} }}"));
    assert!(found[0].0.contains("at most 256 fields"), "{found:?}");
}

#[test]
fn the_name_is_the_structure_s_in_lower_case_unless_it_is_given() {
    assert_eq!(parse("#[repr(C)] struct RangeBin { r#type: [u8; 4] }").unwrap().name, "rangebin");
    let named = parse("#[sample(name = \"radar/bin.1\")] #[repr(C)] struct RangeBin { a: u8 }").unwrap();
    assert_eq!(named.name, "radar/bin.1");
    let code = parse("#[repr(C)] struct A { r#type: u8 }").unwrap().expand().to_string();
    assert!(code.contains("\"type\""), "{code}");
}
