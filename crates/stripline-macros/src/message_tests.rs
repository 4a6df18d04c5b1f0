//! Tests of the errors of `#[derive(stripline::Message)]`, with their texts and places, and of
//! serde's names. The documentation of `stripline::payload::Message` tests whether the generated
//! code compiles.

use crate::message::MessageType;

fn refused(item: &str) -> Vec<(String, String)> {
    match MessageType::parse(item.parse().unwrap()) {
        Ok(message) => panic!("`{}` was taken for a message", message.name),
        Err(errors) => errors
            .into_iter()
            .map(|error| (error.to_string(), error.span().source_text().unwrap_or_default()))
            .collect(),
    }
}

/// Returns the generated code, without spaces.
fn code(item: &str) -> String {
    MessageType::parse(item.parse().unwrap()).unwrap().expand().to_string().replace(' ', "")
}

#[test]
fn what_a_schema_cannot_describe_is_pointed_at() {
    for (item, at, words) in [
        ("struct A<T> { a: T }", "<T>", "cannot be generic"),
        ("struct A<'a> { a: &'a str }", "<'a>", "cannot be generic"),
        ("union A { a: u8 }", "union", "serde has no unions"),
        ("enum A {}", "enum", "needs a variant"),
        ("struct A();", "()", "without brackets"),
        ("#[serde(untagged)] enum A { B }", "untagged", "cannot describe serde's `untagged`"),
        ("#[serde(tag = \"t\")] enum A { B }", "tag", "cannot describe serde's `tag`"),
        ("#[serde(from = \"u8\")] struct A(u8);", "from", "by hand, or use a port without a schema"),
        ("#[serde(into = \"u8\")] struct A(u8);", "into", "cannot describe serde's `into`"),
        ("#[serde(try_from = \"u8\")] struct A(u8);", "try_from", "cannot describe serde's `try_from`"),
        ("#[serde(remote = \"B\")] struct A { a: u8 }", "remote", "cannot describe serde's `remote`"),
        ("#[serde(transparent)] struct A { a: u8 }", "transparent", "cannot describe serde's `transparent`"),
        ("struct A { #[serde(flatten)] a: B }", "flatten", "cannot describe serde's `flatten`"),
        ("struct A { #[serde(with = \"m\")] a: u8 }", "with", "cannot describe serde's `with`"),
        (
            "struct A { #[serde(serialize_with = \"m\")] a: u8 }",
            "serialize_with",
            "cannot describe serde's `serialize_with`",
        ),
        (
            "struct A { #[serde(skip_serializing)] a: u8 }",
            "skip_serializing",
            "cannot describe serde's `skip_serializing`",
        ),
        ("enum A { #[serde(other)] B }", "other", "cannot describe serde's `other`"),
        (
            "struct A { #[serde(rename(serialize = \"b\"))] a: u8 }",
            "rename",
            "write one name for both directions",
        ),
        ("#[serde(rename_all = \"Kebab\")] struct A { a: u8 }", "\"Kebab\"", "serde has no such rule"),
        ("struct A { #[serde(rename = \"a b\")] a: u8 }", "a", "`a b` is not a name in a schema"),
        ("struct A(#[serde(skip)] u8);", "#[serde(skip)] u8", "cannot be left out"),
        ("#[message(name = \"Det\")] struct A { a: u8 }", "\"Det\"", "`Det` is not a valid message name"),
        ("#[message(name = \"u8\")] struct A { a: u8 }", "\"u8\"", "is a built-in kind"),
        ("struct Any { a: u8 }", "Any", "is a built-in kind"),
        ("struct A_b { a: u8 }", "A_b", "`a_b` is not a valid message name"),
        ("#[message(size = 4)] struct A { a: u8 }", "size", "takes a name only"),
        ("#[message(name = \"a\", name = \"b\")] struct A { a: u8 }", "name", "has one name"),
    ] {
        let found = refused(item);
        assert!(
            matches!(&found[..], [(text, place)] if text.contains(words) && place == at),
            "`{item}`: {found:?}"
        );
    }
    assert_eq!(refused("#[serde(untagged)] struct A_b<T> { #[serde(flatten)] a: T }").len(), 4);
}

#[test]
fn names_are_those_that_serde_writes() {
    let fields = "range_bin: u32, #[serde(rename = \"LEVEL\")] level_db: f32, r#type: u8";
    for (rule, names) in [
        ("lowercase", ["range_bin", "type"]),
        ("UPPERCASE", ["RANGE_BIN", "TYPE"]),
        ("PascalCase", ["RangeBin", "Type"]),
        ("camelCase", ["rangeBin", "type"]),
        ("snake_case", ["range_bin", "type"]),
        ("SCREAMING_SNAKE_CASE", ["RANGE_BIN", "TYPE"]),
        ("kebab-case", ["range-bin", "type"]),
        ("SCREAMING-KEBAB-CASE", ["RANGE-BIN", "TYPE"]),
    ] {
        let code = code(&format!("#[serde(rename_all = \"{rule}\")] struct A {{ {fields} }}"));
        for name in names.into_iter().chain(["LEVEL"]) {
            assert!(code.contains(&format!("(\"{name}\",")), "{rule}: {code}");
        }
    }
    for (rule, name) in [
        ("lowercase", "rangebin"),
        ("UPPERCASE", "RANGEBIN"),
        ("PascalCase", "RangeBin"),
        ("camelCase", "rangeBin"),
        ("snake_case", "range_bin"),
        ("SCREAMING_SNAKE_CASE", "RANGE_BIN"),
        ("kebab-case", "range-bin"),
        ("SCREAMING-KEBAB-CASE", "RANGE-BIN"),
    ] {
        let code =
            code(&format!("#[serde(rename_all = \"{rule}\")] enum A {{ RangeBin, #[serde(skip)] Gone }}"));
        assert!(code.contains(&format!("(\"{name}\",")) && !code.contains("one\""), "{rule}: {code}");
    }
    let of_variant = code("enum A { #[serde(rename = \"b\", rename_all = \"UPPERCASE\")] B { a_b: u8 } }");
    assert!(of_variant.contains("(\"b\",") && of_variant.contains("(\"A_B\","), "{of_variant}");
}

#[test]
fn attributes_that_change_nothing_are_allowed() {
    let code = code(
        "#[serde(rename = \"B\", default, deny_unknown_fields, bound = \"\", crate = \"c\")] struct A {\
         #[serde(default = \"f\", alias = \"c\")] a: u8, #[serde(skip_serializing_if = \"f\")] b: u8,\
         #[serde(skip)] c: Unknown }",
    );
    assert!(
        code.contains("(\"a\",<u8") && code.contains("(\"b?\",<u8") && !code.contains("Unknown"),
        "{code}"
    );
}
