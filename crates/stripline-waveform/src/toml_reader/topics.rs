//! Reads the keys of a topics file.

use serde_json::json;
use stripline::link::Sampling;

use super::{TableReader, bytes_of, in_order, noun, shape};
use crate::diagnostics::Code;

impl TableReader<'_, '_> {
    /// Reads a topics file. The parser of topics checks that the values fit together.
    pub(in super::super) fn topics(&mut self) {
        let domain = self.value("domain", || shape(&[], |table| table.domain()));
        let default = self.value("default", || shape(&[], |table| table.topic()));
        let topic = self.value("topic", || {
            let topic = shape(&[], |table| table.topic());
            json!({ "type": "object", "additionalProperties": topic })
        });
        if let Some(mut table) = domain.and_then(|item| self.table(item, "domain")) {
            table.domain();
        }
        if let Some(mut table) = default.and_then(|item| self.table(item, "default")) {
            table.topic();
        }
        if let Some(mut table) = topic.and_then(|item| self.table(item, "topic")) {
            for (key, item) in in_order(table.entries) {
                match item.get_ref().as_table() {
                    Some(entries) => TableReader::new(table.source, table.found, entries).topic(),
                    None => {
                        let message = format!("`topic` takes tables, not {}", noun(item.get_ref()));
                        let remedy = format!("write a table: [topic.{}]", key.get_ref());
                        table.error(Code::WrongKind, item, message, remedy);
                    }
                }
            }
        }
        self.unknown_keys();
    }

    fn domain(&mut self) {
        self.text("group");
        self.unknown_keys();
    }

    fn topic(&mut self) {
        self.options();
        self.types_without_layout();
        self.transport();
        self.dispatch();
        self.text("group");
        self.truth("refusal-is-error");
        self.word("sampling", &[Sampling::Auto, Sampling::All, Sampling::Off], |sampling| match sampling {
            Sampling::Auto => "auto",
            Sampling::All => "all",
            Sampling::Off => "off",
        });
        self.unknown_keys();
        // In this table `buffer` is only a number of bytes.
        if let Some(shapes) = &mut self.shapes {
            shapes["buffer"] = shapes["buffer"]["anyOf"][0].take();
        }
        if let Some(item) = self.entries.get("buffer")
            && let Some(bytes) = item.get_ref().as_str().and_then(bytes_of)
        {
            let message = "`buffer` takes a number of bytes here, not a text";
            self.error(Code::WrongKind, item, message, format!("write buffer = {bytes}"));
        }
    }
}
