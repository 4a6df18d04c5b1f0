//! The JSON schema of experiment files, for editors.

use serde_json::{Value, json};
use stripline::terms::Scope;
use stripline::transport;

use super::case::{Order, Placement, Work};
use super::file::{
    COUNT_MAX, MS_MAX, PACKETS_MAX, PUBLISHED_MS_MAX, RATIO_MAX, REPEATS_MAX, SIZE_MAX, SIZE_MIN,
    SKIP_AFTER_MS_MAX, STAGES_MAX, WINDOW_MAX,
};
use super::stage::ELEMENTS;

/// Returns the JSON schema of an experiment file: the keys, and the kinds and ranges of their
/// values. [`Experiment::load`](super::Experiment::load) also checks that the values fit together.
///
/// ```
/// let schema = stripline_bench::experiment::schema();
/// let case = &schema["properties"]["case"]["items"];
/// assert_eq!(case["required"][0], "name");
/// ```
pub fn schema() -> Value {
    let transports: Vec<&str> = transport::all().map(|transport| transport.name).collect();
    let keys = json!({
        "name": text(),
        "title": text(),
        "stages": many(whole(1, STAGES_MAX)),
        "packets": many(whole(1, PACKETS_MAX)),
        "size": many(whole(SIZE_MIN, SIZE_MAX)),
        "type": many(json!({ "enum": ELEMENTS })),
        "work": many(json!({ "enum": Work::WORDS })),
        "work-ms": many(real(MS_MAX)),
        "pace-ms": many(real(MS_MAX)),
        "scope": many(json!({ "enum": Scope::ALL.map(Scope::as_str) })),
        "dispatch": many(text()),
        "order": many(json!({ "enum": Order::WORDS })),
        "window": many(whole(1, WINDOW_MAX)),
        "skip-after-ms": many(real(SKIP_AFTER_MS_MAX)),
        "transport": many(json!({ "enum": transports })),
        "placement": many(json!({ "enum": Placement::WORDS })),
        "target": table(&[], json!({
            "over-ideal": real(RATIO_MAX),
            "reordered": whole(0, COUNT_MAX),
            "reordered-share-min": real(1.0),
            "over-case": table(&["case", "ratio"], json!({ "case": text(), "ratio": real(RATIO_MAX) })),
        })),
        "published": table(&[], json!({
            "last-ms": many(real(PUBLISHED_MS_MAX)),
            "reordered": many(whole(0, COUNT_MAX)),
            "ideal-ms": real(PUBLISHED_MS_MAX),
            "sends": text(),
        })),
    });
    let mut defaults = keys.clone();
    // These keys belong to single cases.
    for key in ["name", "title", "target", "published"] {
        defaults.as_object_mut().and_then(|keys| keys.remove(key));
    }
    let head = json!({
        "name": text(), "title": text(), "source": text(), "repeats": whole(1, REPEATS_MAX),
    });
    let quick = json!({ "packets": whole(1, PACKETS_MAX), "repeats": whole(1, REPEATS_MAX) });
    let mut schema = table(
        &["experiment", "case"],
        json!({
            "experiment": table(&["name"], head),
            "quick": table(&[], quick),
            "default": table(&[], defaults),
            "case": { "type": "array", "minItems": 1, "items": table(&["name"], keys) },
        }),
    );
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Stripline experiment file".into();
    schema
}

fn table(required: &[&str], keys: Value) -> Value {
    json!({ "type": "object", "properties": keys, "required": required, "additionalProperties": false })
}

fn text() -> Value {
    json!({ "type": "string" })
}

fn whole(min: i64, max: i64) -> Value {
    json!({ "type": "integer", "minimum": min, "maximum": max })
}

fn real(max: f64) -> Value {
    json!({ "type": "number", "minimum": 0.0, "maximum": max })
}

/// Returns the schema of one value, or of a list of them.
fn many(one: Value) -> Value {
    json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::experiment::tables::File;

    /// Returns the keys that the parser lists for a table.
    fn parsed_keys(table: &str) -> BTreeSet<String> {
        let text = format!("experiment = {{ name = 'x' }}\n{table}\nno-such-key = 1");
        // The finding lists only the first of the keys.
        let error = toml::from_str::<File>(&text).err().expect("an unknown key");
        let expected = error.message().split_once("expected").expect("it lists them").1;
        expected.split('`').skip(1).step_by(2).map(String::from).collect()
    }

    fn keys(schema: &Value) -> BTreeSet<String> {
        schema["properties"].as_object().expect("a table").keys().cloned().collect()
    }

    #[test]
    fn the_schema_has_the_keys_of_the_parser() {
        let schema = schema();
        let case = &schema["properties"]["case"]["items"];
        assert_eq!(keys(&schema), parsed_keys(""));
        assert_eq!(keys(&schema["properties"]["quick"]), parsed_keys("[quick]"));
        assert_eq!(keys(case), parsed_keys("[[case]]"));
        assert!(keys(case).is_superset(&keys(&schema["properties"]["default"])));
        assert_eq!(keys(&case["properties"]["target"]), parsed_keys("[[case]]\nname = 'a'\n[case.target]"));
        assert_eq!(
            keys(&case["properties"]["published"]),
            parsed_keys("[[case]]\nname = 'a'\n[case.published]")
        );
    }
}
