//! JSON schemas of waveform files and topics files, for editors.

use serde_json::Value;

use super::toml_reader::{topics_shape, waveform_shape};

/// Returns the JSON schema of a waveform file, made from the keys that the reader asks for.
///
/// A schema has the keys and the kinds of their values. `load` also checks that the values fit
/// together.
///
/// ```
/// let schema = stripline_waveform::internal::waveform_schema();
/// let component = &schema["properties"]["component"]["additionalProperties"]["properties"];
/// assert_eq!(component["restart"]["anyOf"][0]["enum"][0], "never");
/// ```
pub fn waveform_schema() -> Value {
    waveform_shape()
}

/// Returns the JSON schema of the topics file that STRIPLINE_TOPICS names. The schema is made in
/// the same way as the schema of waveform files.
///
/// ```
/// let schema = stripline_waveform::internal::topics_schema();
/// let topic = &schema["properties"]["topic"]["additionalProperties"]["properties"];
/// assert_eq!(topic["depth"]["minimum"], 1);
/// ```
pub fn topics_schema() -> Value {
    topics_shape()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;
    use stripline::node::Topics;

    use super::*;

    /// Returns the keys that the parser of topics lists for a table.
    fn parsed_keys(table: &str) -> BTreeSet<String> {
        let error = Topics::parse(&format!("{table}\nno-such-key = 1")).unwrap_err().to_string();
        let expected = error.split_once("expected").expect("it lists them").1;
        expected.split('`').skip(1).step_by(2).map(String::from).collect()
    }

    fn keys(schema: &Value) -> BTreeSet<String> {
        schema["properties"].as_object().expect("a table").keys().cloned().collect()
    }

    #[test]
    fn the_schema_of_topics_has_the_keys_of_their_parser() {
        let schema = topics_schema();
        assert_eq!(keys(&schema), parsed_keys(""));
        assert_eq!(keys(&schema["properties"]["domain"]), parsed_keys("[domain]"));
        assert_eq!(keys(&schema["properties"]["default"]), parsed_keys("[default]"));
        assert_eq!(keys(&schema["properties"]["topic"]["additionalProperties"]), parsed_keys("[topic.a]"));
        let resequence = &schema["properties"]["default"]["properties"]["resequence"];
        assert_eq!(keys(resequence), parsed_keys("[default.resequence]"));
        for table in ["tcp", "udp", "zenoh", "corba"] {
            let shape = &schema["properties"]["default"]["properties"][table];
            assert_eq!(keys(shape), parsed_keys(&format!("[default.{table}]")));
        }
    }

    #[test]
    fn the_schema_of_waveforms_has_the_keys_of_their_reader() {
        let schema = waveform_schema();
        let component = &schema["properties"]["component"]["additionalProperties"];
        let connection = &schema["properties"]["connection"]["items"];
        assert_eq!(keys(&schema), ["component", "connection", "waveform"].map(String::from).into());
        assert!(keys(component).is_superset(&["type", "exec", "cpu", "properties"].map(String::from).into()));
        assert!(
            keys(connection).is_superset(&["from", "to", "depth", "resequence"].map(String::from).into())
        );
        assert_eq!(connection["required"], json!(["from", "to"]));
        assert_eq!(connection["properties"]["overflow"]["enum"][0], "block");
    }
}
