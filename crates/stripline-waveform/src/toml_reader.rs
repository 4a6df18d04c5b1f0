//! The tables of a waveform file: the keys of each table, and the kind of value that each key
//! takes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, json};
use stripline::component::Value;
use stripline::internal::units;
use stripline::node::Dispatch;
use stripline::packet::payload::TypeName;
use stripline::terms::{Flow, LinkOptions, Overflow, Resequence, Scope, WaitStrategy};
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::diagnostics::{At, Code, Diagnostics, Place, Source};
use super::file::{
    COMPONENTS_MAX, CONNECTION_BRACKETS, CONNECTIONS_MAX, ComponentDraft, ConnectionDraft, Draft,
    NAME_BYTES_MAX, Property, is_name,
};
use super::synonyms::did_you_mean_key;
use super::text::{count, did_you_mean, listed, quoted};
use super::{AfterGivingUp, GiveUp, Placement, Restart, RestartWhen};

pub(super) mod program;
mod topics;
mod transport_tables;

/// The maximum length of a description in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1000;
/// The largest processor number; `sched_setaffinity` has the same limit.
const CPU_MAX: i64 = 1023;

/// The maximum number of transports in `allow` of a connection.
const ALLOWED_MAX: usize = 16;

/// The ends and the transport, the transports in `allow`, the options, and the types in
/// `types-without-layout`.
type ConnectionKeys = ([Option<At<String>>; 3], Vec<At<String>>, LinkOptions, Vec<At<TypeName>>, Option<u32>);

type Key<'i> = Spanned<DeString<'i>>;
type Item<'i> = Spanned<DeValue<'i>>;
/// The values of `when`, `pause-max-ms`, `give-up-after` and `then`.
type RestartKeys = (Option<RestartWhen>, Option<u32>, Option<At<String>>, Option<AfterGivingUp>);

/// Returns the entries in the order of the file. The parser sorts them by name.
fn in_order<'t>(table: &'t DeTable<'t>) -> Vec<(&'t Key<'t>, &'t Item<'t>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// A reader of one table of the file.
pub(super) struct TableReader<'r, 't> {
    source: &'r Arc<Source>,
    found: &'r mut Diagnostics,
    entries: &'t DeTable<'t>,
    /// The keys that the table may have, in the order in which they were read.
    keys: Vec<&'static str>,
    /// The place of each value.
    places: BTreeMap<&'static str, Place>,
    /// The values that each key takes, as JSON schema. `None` unless a schema is being made.
    shapes: Option<Map<String, serde_json::Value>>,
}

/// Returns the JSON schema of a waveform file.
pub(super) fn waveform_shape() -> serde_json::Value {
    let mut schema = shape(&["component"], |table| table.draft());
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Stripline waveform file".into();
    schema
}

/// Returns the JSON schema of a topics file.
pub(super) fn topics_shape() -> serde_json::Value {
    let mut schema = shape(&[], |table| table.topics());
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema".into();
    schema["title"] = "Stripline topics file".into();
    schema
}

/// Returns the JSON schema of a table, made from the keys that the reader asks for.
fn shape<T>(required: &[&str], read: impl FnOnce(&mut TableReader) -> T) -> serde_json::Value {
    let source = Source::file(String::new(), String::new());
    let (mut found, entries) = (Diagnostics::default(), DeTable::new());
    let mut table = TableReader::new(&source, &mut found, &entries);
    table.shapes = Some(Map::new());
    read(&mut table);
    json!({
        "type": "object",
        "properties": table.shapes,
        "required": required,
        "additionalProperties": false,
    })
}

impl<'r, 't> TableReader<'r, 't> {
    pub(super) fn new(source: &'r Arc<Source>, found: &'r mut Diagnostics, entries: &'t DeTable<'t>) -> Self {
        Self { source, found, entries, keys: Vec::new(), places: BTreeMap::new(), shapes: None }
    }

    /// Reads the whole file; `None` if it is far too large.
    pub(super) fn draft(&mut self) -> Option<Draft> {
        let waveform = self.value("waveform", || shape(&[], |table| table.waveform()));
        let component = self.value("component", || {
            let mut component = shape(&[], |table| table.component_draft(table.no_name()));
            // With both keys, the type is a type of the executable.
            component["anyOf"] = json!([{ "required": ["type"] }, { "required": ["exec"] }]);
            json!({
                "type": "object",
                "minProperties": 1,
                "propertyNames": { "pattern": format!("^[A-Za-z0-9_-]{{1,{NAME_BYTES_MAX}}}$") },
                "additionalProperties": component,
            })
        });
        let connection = self.value(
            "connection",
            || json!({ "type": "array", "items": shape(&["from", "to"], |table| table.connection_keys()) }),
        );
        for (item, max, noun) in
            [(component, COMPONENTS_MAX, "component"), (connection, CONNECTIONS_MAX, "connection")]
        {
            let Some(item) = item else { continue };
            let len = match item.get_ref() {
                DeValue::Table(table) => table.len(),
                DeValue::Array(list) => list.len(),
                _ => 0,
            };
            if len > max {
                let message = format!("the waveform has {}, which is more than {max}", count(len, noun));
                self.error(Code::Limit, item, message, "split it into several waveforms");
                return None;
            }
        }
        let table = waveform.and_then(|item| self.table(item, "waveform"));
        let (name, description) = table.map(|mut table| table.waveform()).unwrap_or_default();
        let components = component.map(|item| self.components(item)).unwrap_or_default();
        let connections = connection.map(|item| self.connections(item)).unwrap_or_default();
        self.unknown_keys();
        if component.is_none() {
            self.no_component(&self.place(0..0));
        }
        Some(Draft { name, description, components, connections })
    }

    fn waveform(&mut self) -> (Option<String>, String) {
        let name = self.text("name");
        name.iter().for_each(|name| self.check_name(name));
        let description = self.text("description");
        // The description is printed on terminals.
        let is_long = |text: &str| text.len() > DESCRIPTION_BYTES_MAX || text.chars().any(char::is_control);
        if let Some(at) = description.as_ref().filter(|at| is_long(&at.value)) {
            let remedy = format!("write one line of at most {DESCRIPTION_BYTES_MAX} bytes");
            self.found.error(Code::BadValue, &at.place, "`description` is not one short line", remedy);
        }
        self.unknown_keys();
        (name.map(|at| at.value), description.map(|at| at.value).unwrap_or_default())
    }

    fn components(&mut self, item: &Item) -> Vec<ComponentDraft> {
        let Some(mut table) = self.table(item, "component") else { return Vec::new() };
        if table.entries.is_empty() {
            table.no_component(&table.place(item.span()));
        }
        in_order(table.entries).into_iter().filter_map(|(key, item)| table.component(key, item)).collect()
    }

    fn component(&mut self, key: &Key, item: &Item) -> Option<ComponentDraft> {
        let name = self.name(key);
        let Some(entries) = item.get_ref().as_table() else {
            let message = format!("component {} is {}", quoted(&name.value), noun(item.get_ref()));
            let remedy = format!("write a table: [component.{}]", name.value);
            self.error(Code::WrongKind, item, message, remedy);
            return None;
        };
        self.check_name(&name);
        Some(TableReader::new(self.source, self.found, entries).component_draft(name))
    }

    fn component_draft(&mut self, name: At<String>) -> ComponentDraft {
        ComponentDraft {
            name,
            has_program: self.entries.contains_key("type") || self.entries.contains_key("exec"),
            stock: self.text("type"),
            executable: self.program(),
            placement: self.word("placement", &Placement::ALL, Placement::as_str),
            restart: self.restart(),
            priority: self.number("priority", 1, 99),
            cpus: self.cpus(),
            dispatch: self.dispatch(),
            properties: self.properties(),
            // Collect the unknown keys last, because all other keys have been read by now.
            unknown_keys: self.unknown(),
            keys: std::mem::take(&mut self.keys),
            places: std::mem::take(&mut self.places),
        }
    }

    fn properties(&mut self) -> Vec<Property> {
        let scalar = || json!({ "type": ["boolean", "integer", "number", "string"] });
        let item = self.value("properties", || json!({ "type": "object", "additionalProperties": scalar() }));
        let Some(mut table) = item.and_then(|item| self.table(item, "properties")) else { return Vec::new() };
        let entries = table.entries;
        let property = |(key, item): (&Key, &Item)| Property {
            name: table.name(key),
            value: At { value: table.property_value(item), place: table.place(item.span()) },
        };
        in_order(entries).into_iter().map(property).collect()
    }

    fn property_value(&mut self, item: &Item) -> Option<Value> {
        match item.get_ref() {
            DeValue::Boolean(value) => Some(Value::Boolean(*value)),
            DeValue::Integer(_) => self.whole(item).map(Value::Integer),
            // A number that is too large for the type becomes infinite, which no property accepts.
            DeValue::Float(value) => value.as_str().parse().ok().map(Value::Float),
            DeValue::String(text) => Some(Value::Text(text.to_string())),
            other => {
                let message = format!("a property is not {}", noun(other));
                self.error(Code::BadProperty, item, message, "it is a number, a text, or true or false");
                None
            }
        }
    }

    fn cpus(&mut self) -> Vec<At<usize>> {
        let shape = || {
            let one = json!({ "type": "integer", "minimum": 0, "maximum": CPU_MAX });
            json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
        };
        let Some(item) = self.value("cpu", shape) else { return Vec::new() };
        let one = std::slice::from_ref(item);
        let items = item.get_ref().as_array().map_or(one, |items| items.iter().as_slice());
        if items.is_empty() {
            let remedy = "name one or more, as [0, 1], or leave `cpu` out";
            self.error(Code::BadValue, item, "`cpu` lists no processor", remedy);
        }
        let mut cpus: Vec<At<usize>> = Vec::new();
        for item in items {
            let Some(value) = self.integer(item, "cpu", 0, CPU_MAX) else { continue };
            if cpus.iter().all(|known| known.value != value) {
                cpus.push(At { value, place: self.place(item.span()) });
            }
        }
        cpus
    }

    fn connections(&mut self, item: &Item) -> Vec<ConnectionDraft> {
        let one = std::slice::from_ref(item);
        let list = match item.get_ref() {
            DeValue::Array(list) => list.iter().as_slice(),
            other => {
                let message = format!("`connection` is {}", noun(other));
                self.error(Code::WrongKind, item, message, CONNECTION_BRACKETS);
                // A table in single brackets is probably meant as a connection.
                if other.is_table() { one } else { &[] }
            }
        };
        list.iter().filter_map(|item| self.connection(item)).collect()
    }

    fn connection(&mut self, item: &Item) -> Option<ConnectionDraft> {
        let mut table = self.table(item, "connection")?;
        let (ends, allow, options, types_without_layout, age_limit_ms) = table.connection_keys();
        let [from, to, transport] = ends;
        for key in ["from", "to"] {
            if !table.entries.contains_key(key) {
                let example = if key == "from" { "from = \"source.out\"" } else { "to = \"sink.in\"" };
                let message = format!("this connection has no `{key}`");
                table.error(Code::MissingKey, item, message, format!("add a line such as {example}"));
            }
        }
        table.unknown_keys();
        let place = table.place(item.span());
        let places = table.places;
        Some(ConnectionDraft {
            place,
            from,
            to,
            transport,
            allow,
            options,
            types_without_layout,
            age_limit_ms,
            places,
        })
    }

    fn connection_keys(&mut self) -> ConnectionKeys {
        let names = ["from", "to", "transport"].map(|key| self.text(key));
        let age_limit_ms = self.number("age-limit-ms", 1, LinkOptions::DEADLINE_MS_MAX);
        (names, self.allow(), self.options(), self.types_without_layout(), age_limit_ms)
    }

    /// Reads the transports that `auto` may choose in addition.
    fn allow(&mut self) -> Vec<At<String>> {
        const KEY: &str = "allow";
        let shape = || json!({ "type": "array", "items": { "type": "string" }, "maxItems": ALLOWED_MAX, "uniqueItems": true });
        let Some(item) = self.value(KEY, shape) else { return Vec::new() };
        let Some(items) = item.get_ref().as_array() else {
            let message = format!("`{KEY}` takes a list of transports, not {}", noun(item.get_ref()));
            self.error(Code::WrongKind, item, message, format!("write {KEY} = [\"tcp\"]"));
            return Vec::new();
        };
        if items.len() > ALLOWED_MAX {
            let message = format!("`{KEY}` names {}", count(items.len(), "transport"));
            self.error(Code::Limit, item, message, format!("name at most {ALLOWED_MAX}"));
            return Vec::new();
        }
        let mut names: Vec<At<String>> = Vec::new();
        for item in items {
            let Some(text) = item.get_ref().as_str() else {
                self.kind(item, KEY, "texts");
                continue;
            };
            if names.iter().any(|name| name.value == text) {
                let message = format!("`{KEY}` names {} twice", quoted(text));
                self.error(Code::Duplicate, item, message, "remove one of the two");
                continue;
            }
            names.push(At { value: text.to_string(), place: self.place(item.span()) });
        }
        names
    }

    /// Reads the types without a layout that are allowed by name.
    fn types_without_layout(&mut self) -> Vec<At<TypeName>> {
        const KEY: &str = "types-without-layout";
        let shape = || {
            let name =
                json!({ "type": "string", "pattern": "^[a-z0-9/.-]+$", "maxLength": TypeName::LENGTH_MAX });
            json!({ "type": "array", "items": name })
        };
        let Some(item) = self.value(KEY, shape) else { return Vec::new() };
        let Some(items) = item.get_ref().as_array() else {
            let message = format!("`{KEY}` takes a list of names, not {}", noun(item.get_ref()));
            self.error(Code::WrongKind, item, message, format!("write {KEY} = [\"det\"]"));
            return Vec::new();
        };
        let mut names = Vec::new();
        for item in items {
            let Some(text) = item.get_ref().as_str() else {
                self.kind(item, KEY, "texts");
                continue;
            };
            match TypeName::without_layout(text) {
                Ok(value) => names.push(At { value, place: self.place(item.span()) }),
                Err(problem) => {
                    let (what, remedy) = problem.split_once("; ").unwrap_or((&problem, ""));
                    self.error(Code::BadValue, item, format!("`{KEY}`: {what}"), remedy);
                }
            }
        }
        names
    }

    fn options(&mut self) -> LinkOptions {
        const MS_MAX: u32 = LinkOptions::DEADLINE_MS_MAX;
        const DEPTH_MAX: u32 = LinkOptions::DEPTH_MAX;
        let default = LinkOptions::default();
        LinkOptions {
            overflow: self.word("overflow", &Overflow::ALL, Overflow::as_str).unwrap_or(default.overflow),
            depth: self.number("depth", 1, DEPTH_MAX).unwrap_or(default.depth),
            high_watermark: self.number("high-watermark", 1, DEPTH_MAX),
            low_watermark: self.number("low-watermark", 0, DEPTH_MAX),
            flow: self.word("flow", &Flow::ALL, Flow::as_str).unwrap_or(default.flow),
            send_timeout_ms: self.number("send-timeout-ms", 1, MS_MAX),
            scope: self.word("scope", &Scope::ALL, Scope::as_str).unwrap_or(default.scope),
            deadline_ms: self.number("deadline-ms", 1, MS_MAX).unwrap_or(default.deadline_ms),
            resequence: self.resequence(),
            buffer: self.buffer().unwrap_or(default.buffer),
            wait: self.word("wait", &WaitStrategy::ALL, WaitStrategy::as_str).unwrap_or(default.wait),
            huge_pages: self.truth("huge-pages"),
            locked: self.truth("locked"),
            group: None,
            any_build: false,
            transport_options: self.transport_options(),
        }
    }

    fn transport(&mut self) {
        let auto = std::iter::once(stripline::transport::AUTO);
        let names: Vec<&str> =
            stripline::transport::all().map(|transport| transport.name).chain(auto).collect();
        let Some(name) = self.text_shaped("transport", || json!({ "enum": names })) else { return };
        if !names.contains(&name.value.as_str()) {
            let message = format!("there is no transport {}", quoted(&name.value));
            let remedy = did_you_mean(&name.value, names.iter().copied(), "the transports are");
            self.found.error(Code::UnknownTransport, &name.place, message, remedy);
        }
    }

    fn dispatch(&mut self) -> Option<Dispatch> {
        let text = self.text("dispatch")?;
        let wrong = |error: String| {
            let (what, remedy) = error.split_once("; ").unwrap_or((&error, ""));
            self.found.error(Code::BadValue, &text.place, format!("`dispatch`: {what}"), remedy);
        };
        text.value.parse().map_err(wrong).ok()
    }

    /// Reads a word, or a table that has the word in `when`.
    fn restart(&mut self) -> Option<Restart> {
        let shape = || {
            let words = RestartWhen::ALL.map(RestartWhen::as_str);
            json!({ "anyOf": [{ "enum": words }, shape(&["when"], |table| table.restart_keys())] })
        };
        let item = self.value("restart", shape)?;
        match item.get_ref() {
            DeValue::Table(_) => {}
            DeValue::String(_) => {
                return self.word("restart", &RestartWhen::ALL, RestartWhen::as_str).map(Restart::of);
            }
            _ => {
                self.kind(item, "restart", "a text or a table");
                return None;
            }
        }
        let mut table = self.table(item, "restart")?;
        let (when, pause_max_ms, give_up, then) = table.restart_keys();
        table.unknown_keys();
        if !table.entries.contains_key("when") {
            let remedy = "add when = \"on-failure\", \"always\" or \"never\"";
            table.error(Code::MissingKey, item, "`restart` has no `when`", remedy);
        }
        let rule = give_up.as_ref().map_or(Ok(GiveUp::default()), |text| text.value.parse());
        let pause_max =
            pause_max_ms.map_or(Restart::PAUSE_MAX_DEFAULT, |ms| Duration::from_millis(ms.into()));
        if when == Some(RestartWhen::Never) {
            for key in
                ["pause-max-ms", "give-up-after"].into_iter().filter(|key| table.places.contains_key(key))
            {
                let message = format!("`{key}` has no effect with when = \"never\"");
                table.found.error(Code::BadValue, &table.places[key], message, "leave it out");
            }
        }
        let place = give_up.map_or_else(|| table.place(item.span()), |text| text.place);
        // A wrong word or number has been reported.
        let when = when?;
        match rule.and_then(|give_up| Restart::new(when, pause_max, give_up)) {
            Ok(rule) => Some(rule.then(then.unwrap_or(AfterGivingUp::End))),
            Err(error) => {
                self.found.error(Code::BadValue, &place, error.to_string(), error.remedy());
                None
            }
        }
    }

    fn restart_keys(&mut self) -> RestartKeys {
        let (min, max) = (*Restart::PAUSE_MAX_MS.start(), *Restart::PAUSE_MAX_MS.end());
        (
            self.word("when", &RestartWhen::ALL, RestartWhen::as_str),
            self.number("pause-max-ms", min.into(), max),
            self.text("give-up-after"),
            self.word("then", &AfterGivingUp::ALL, AfterGivingUp::as_str),
        )
    }

    fn resequence(&mut self) -> Option<Resequence> {
        const EXAMPLE: &str = "write resequence = { window = 4096, skip-after-ms = 1000 }";
        let shape = || shape(&["window", "skip-after-ms"], |table| table.resequence_keys());
        let item = self.value("resequence", shape)?;
        let mut table = self.table(item, "resequence")?;
        let (window, skip_after_ms) = table.resequence_keys();
        for key in ["window", "skip-after-ms"] {
            if !table.entries.contains_key(key) {
                table.error(Code::MissingKey, item, format!("`resequence` has no `{key}`"), EXAMPLE);
            }
        }
        table.unknown_keys();
        // Both values are in range here.
        Resequence::new(window?, Duration::from_millis(skip_after_ms?)).ok()
    }

    fn resequence_keys(&mut self) -> (Option<usize>, Option<u64>) {
        let window = self.number("window", 1, Resequence::WINDOW_MAX);
        (window, self.number("skip-after-ms", 0, Resequence::SKIP_AFTER_MS_MAX))
    }

    fn buffer(&mut self) -> Option<u32> {
        const EXAMPLE: &str = "write it as \"2MiB\", \"512KiB\" or 2097152";
        let shape = || {
            let (min, max) = (LinkOptions::BUFFER_MIN, LinkOptions::BUFFER_MAX);
            let number = json!({ "type": "integer", "minimum": min, "maximum": max });
            json!({ "anyOf": [number, { "type": "string", "pattern": "^[0-9]+ *([KMG]iB)?$" }] })
        };
        let item = self.value("buffer", shape)?;
        let bytes = match item.get_ref() {
            DeValue::Integer(_) => self.whole(item)?.try_into().ok(),
            DeValue::String(text) => bytes_of(text),
            other => {
                let message = format!("`buffer` takes a number of bytes or a text, not {}", noun(other));
                self.error(Code::WrongKind, item, message, EXAMPLE);
                return None;
            }
        };
        let range = LinkOptions::BUFFER_MIN..=LinkOptions::BUFFER_MAX;
        let fits = bytes.and_then(|n| u32::try_from(n).ok()).filter(|n| range.contains(n));
        let (message, remedy) = match (fits, bytes) {
            (Some(n), _) if n.is_power_of_two() => return Some(n),
            (Some(n), _) => {
                let next = format_bytes(n.next_power_of_two());
                ("`buffer` must be a power of two", format!("the next larger one is \"{next}\""))
            }
            (None, Some(_)) => ("`buffer` is out of range", "it must be from 4KiB to 1GiB".into()),
            (None, None) => ("`buffer` is not a number of bytes", EXAMPLE.into()),
        };
        self.error(Code::BadValue, item, message, remedy);
        None
    }

    // The following functions read one value of one kind.

    /// Returns the value of a key, and records that the table may have this key. `shape` is the
    /// JSON schema of the allowed values.
    fn value(
        &mut self,
        key: &'static str,
        shape: impl FnOnce() -> serde_json::Value,
    ) -> Option<&'t Item<'t>> {
        self.keys.push(key);
        if let Some(shapes) = &mut self.shapes {
            shapes.insert(key.into(), shape());
        }
        let item = self.entries.get(key)?;
        self.places.insert(key, self.place(item.span()));
        Some(item)
    }

    fn table<'n>(&mut self, item: &'n Item<'n>, key: &str) -> Option<TableReader<'_, 'n>> {
        let Some(entries) = item.get_ref().as_table() else {
            self.kind(item, key, "a table");
            return None;
        };
        Some(TableReader::new(self.source, self.found, entries))
    }

    fn text(&mut self, key: &'static str) -> Option<At<String>> {
        self.text_shaped(key, || json!({ "type": "string" }))
    }

    fn text_shaped(
        &mut self,
        key: &'static str,
        shape: impl FnOnce() -> serde_json::Value,
    ) -> Option<At<String>> {
        let item = self.value(key, shape)?;
        let text = item.get_ref().as_str();
        if text.is_none() {
            self.kind(item, key, "a text");
        }
        text.map(|text| At { value: text.to_string(), place: self.place(item.span()) })
    }

    /// Reads a boolean; a missing key is false.
    fn truth(&mut self, key: &'static str) -> bool {
        let Some(item) = self.value(key, || json!({ "type": "boolean" })) else { return false };
        let value = item.get_ref().as_bool();
        if value.is_none() {
            self.kind(item, key, "true or false");
        }
        value.unwrap_or(false)
    }

    fn number<T: TryFrom<i64>>(&mut self, key: &'static str, min: i64, max: u32) -> Option<T> {
        let shape = || json!({ "type": "integer", "minimum": min, "maximum": max });
        self.value(key, shape).and_then(|item| self.integer(item, key, min, max.into()))
    }

    fn integer<T: TryFrom<i64>>(&mut self, item: &Item, key: &str, min: i64, max: i64) -> Option<T> {
        if !item.get_ref().is_integer() {
            let cure = |text: &str| match text.trim().parse::<i64>() {
                Ok(_) => Some("write it without quotes".into()),
                Err(_) => units::fix(text, if key.ends_with("-ms") { "ms" } else { "" }, true),
            };
            match item.get_ref().as_str().and_then(cure) {
                Some(remedy) => {
                    let message = format!("`{key}` takes a whole number, not a text");
                    self.error(Code::WrongKind, item, message, remedy);
                }
                None => self.kind(item, key, "a whole number"),
            }
            return None;
        }
        let value = self.whole(item)?;
        if !(min..=max).contains(&value) {
            let remedy = format!("it must be from {min} to {max}");
            self.error(Code::BadValue, item, format!("`{key}` is {value}"), remedy);
            return None;
        }
        T::try_from(value).ok()
    }

    fn whole(&mut self, item: &Item) -> Option<i64> {
        let number = item.get_ref().as_integer()?;
        let value = i64::from_str_radix(number.as_str(), number.radix()).ok();
        if value.is_none() {
            let remedy = "a whole number has at most 64 bits";
            self.error(Code::BadValue, item, "this number is too large", remedy);
        }
        value
    }

    fn word<T: Copy>(&mut self, key: &'static str, all: &[T], as_str: fn(T) -> &'static str) -> Option<T> {
        let shape = || json!({ "enum": all.iter().map(|value| as_str(*value)).collect::<Vec<_>>() });
        let text = self.text_shaped(key, shape)?;
        let known = all.iter().copied().find(|value| as_str(*value) == text.value);
        if known.is_none() {
            let message = format!("`{key}` cannot be {}", quoted(&text.value));
            let remedy = format!("it is one of {}", listed(all.iter().map(|value| as_str(*value)), "and"));
            self.found.error(Code::BadValue, &text.place, message, remedy);
        }
        known
    }

    /// Returns a key that is a name chosen by the user.
    fn name(&self, key: &Key) -> At<String> {
        At { value: key.get_ref().to_string(), place: self.place(key.span()) }
    }

    /// Returns the name of a table that is read only for the schema.
    fn no_name(&self) -> At<String> {
        At { value: String::new(), place: self.place(0..0) }
    }

    fn check_name(&mut self, name: &At<String>) {
        if !is_name(&name.value) {
            let message = format!("{} is not a valid name", quoted(&name.value));
            let remedy = format!("use 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`");
            self.found.error(Code::BadName, &name.place, message, remedy);
        }
    }

    fn kind(&mut self, item: &Item, key: &str, wanted: &str) {
        let message = format!("`{key}` takes {wanted}, not {}", noun(item.get_ref()));
        self.error(Code::WrongKind, item, message, "");
    }

    fn no_component(&mut self, place: &Place) {
        let remedy = "add a table [component.NAME] with `type` or `exec`";
        self.found.error(Code::Empty, place, "the waveform has no component", remedy);
    }

    /// Returns the keys that have not been read.
    fn unknown(&self) -> Vec<At<String>> {
        let unknown = self.entries.keys().filter(|key| !self.keys.contains(&key.get_ref().as_ref()));
        unknown.map(|key| self.name(key)).collect()
    }

    /// Reports keys that the table may not have. All allowed keys must already have been read.
    fn unknown_keys(&mut self) {
        for key in self.unknown() {
            if key.value == "group" && self.keys.contains(&"from") {
                let remedy = "all processes of a waveform belong to the user that starts it, and no other user \
                              can find their connections; publish on a topic of a domain with a group instead";
                self.found.error(Code::UnknownKey, &key.place, "a connection has no `group`", remedy);
                continue;
            }
            let remedy = self.other_place(&key.value).unwrap_or_else(|| {
                did_you_mean_key(&key.value, self.keys.iter().copied(), "the keys here are")
            });
            let message = format!("unknown key {}", quoted(&key.value));
            self.found.error(Code::UnknownKey, &key.place, message, remedy);
        }
    }

    /// Returns the right place for a key that stands in the wrong table.
    fn other_place(&self, key: &str) -> Option<String> {
        let is_here = |table: &str| self.keys.contains(&table);
        let place = match key {
            "name" | "description" if is_here("waveform") => "move it into the table [waveform]",
            "name" if is_here("topic") => "leave it out: the tables of a topics file have the topics' names",
            "name" if is_here("from") => "leave it out: a connection is named by its two ends",
            "name" if is_here("refusal-is-error") => "leave it out: a topic has the name of its table",
            _ if is_here("waveform") && is_key_of_link(key) => {
                "move it into the [[connection]] that it is for"
            }
            _ if is_here("topic") && is_key_of_link(key) => {
                "move it into [topic.NAME], or into [default] for all topics"
            }
            _ => return None,
        };
        Some(place.into())
    }

    fn error(&mut self, code: Code, item: &Item, message: impl Into<String>, remedy: impl Into<String>) {
        self.found.error(code, &self.place(item.span()), message, remedy);
    }

    fn place(&self, span: std::ops::Range<usize>) -> Place {
        Place::new(self.source, span)
    }
}

/// Returns whether connections and topics have this key.
fn is_key_of_link(key: &str) -> bool {
    let source = Source::file(String::new(), String::new());
    let (mut found, entries) = (Diagnostics::default(), DeTable::new());
    let mut table = TableReader::new(&source, &mut found, &entries);
    table.connection_keys();
    table.keys.contains(&key)
}

/// Returns the kind of a TOML value as a phrase.
fn noun(value: &DeValue) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}

const UNITS: [(&str, u32); 3] = [("GiB", 30), ("MiB", 20), ("KiB", 10)];

/// Parses a text such as `2MiB` as bytes.
fn bytes_of(text: &str) -> Option<u64> {
    let (number, shift) =
        UNITS.iter().find_map(|&(unit, shift)| Some((text.strip_suffix(unit)?, shift))).unwrap_or((text, 0));
    let number: u64 = number.trim_end().parse().ok()?;
    number.checked_mul(1 << shift)
}

/// Formats a power of two as a text that `buffer` takes.
fn format_bytes(bytes: u32) -> String {
    let unit = UNITS.iter().find(|&&(_, shift)| bytes >> shift > 0);
    unit.map_or_else(|| bytes.to_string(), |&(unit, shift)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_with_binary_units() {
        assert_eq!(bytes_of("2MiB"), Some(1 << 21));
        assert_eq!(bytes_of("512 KiB"), Some(1 << 19));
        assert_eq!(bytes_of("4096"), Some(4096));
        for bad in ["", "MiB", "2MB", "-1KiB", "1.5MiB", "99999999999999999999", "18446744073709551615GiB"] {
            assert_eq!(bytes_of(bad), None, "{bad}");
        }
        for shift in 0..=30 {
            assert_eq!(bytes_of(&format_bytes(1 << shift)), Some(1 << shift));
        }
    }
}
