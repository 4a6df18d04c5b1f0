//! The tables of a waveform file: which keys each has, and which kind of value each key takes.

use std::sync::Arc;
use std::time::Duration;

use stripline::component::Value;
use stripline::internal::units;
use stripline::node::Dispatch;
use stripline::terms::{Flow, LinkOptions, Overflow, Resequence, Scope, WaitStrategy};
use toml::Spanned;
use toml::de::{DeArray, DeString, DeTable, DeValue};

use super::diagnostics::{At, Code, Diagnostic, Diagnostics, Place, Source};
use super::file::{ComponentDraft, ConnectionDraft, Draft, NAME_BYTES_MAX, Property, is_name};
use super::text::{count, did_you_mean, listed, quoted};
use super::{Placement, Restart};

/// The longest description, in bytes.
const DESCRIPTION_BYTES_MAX: usize = 1000;
/// The largest processor number, which `sched_setaffinity` shares.
const CPU_MAX: i64 = 1023;

type Key<'i> = Spanned<DeString<'i>>;
type Item<'i> = Spanned<DeValue<'i>>;

/// Returns the entries in the file's order; the parser sorts them by name.
pub(super) fn in_order<'t, 'i>(table: &'t DeTable<'i>) -> Vec<(&'t Key<'i>, &'t Item<'i>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

pub(super) struct TomlReader<'r> {
    pub source: &'r Arc<Source>,
    pub found: &'r mut Diagnostics,
}

impl TomlReader<'_> {
    pub(super) fn waveform(&mut self, item: &Item, draft: &mut Draft) {
        let Some(table) = self.table(item, "waveform") else { return };
        for (key, value) in in_order(table) {
            match key.get_ref().as_ref() {
                "name" => {
                    let name = self.text(value, "name");
                    name.iter().for_each(|name| self.check_name(name));
                    draft.name = name.map(|name| name.value);
                }
                "description" => {
                    let text = self.text(value, "description").map(|at| at.value).unwrap_or_default();
                    // It is printed on terminals.
                    if text.len() > DESCRIPTION_BYTES_MAX || text.chars().any(char::is_control) {
                        let remedy = format!("write one line of at most {DESCRIPTION_BYTES_MAX} bytes");
                        self.error(Code::BadValue, value, "`description` is not one short line", remedy);
                    }
                    draft.description = text;
                }
                _ => self.unknown_key(key, &["name", "description"]),
            }
        }
    }

    pub(super) fn components(&mut self, item: &Item) -> Vec<ComponentDraft> {
        let Some(table) = self.table(item, "component") else { return Vec::new() };
        if table.is_empty() {
            let remedy = "add a table [component.NAME] with `type` or `exec`";
            self.error(Code::Empty, item, "the waveform has no component", remedy);
        }
        in_order(table).into_iter().filter_map(|(key, item)| self.component(key, item)).collect()
    }

    fn component(&mut self, key: &Key, item: &Item) -> Option<ComponentDraft> {
        let name = At { value: key.get_ref().to_string(), place: Place::new(self.source, key.span()) };
        let Some(table) = item.get_ref().as_table() else {
            let message = format!("component {} is {}", quoted(&name.value), noun(item.get_ref()));
            let remedy = format!("write a table: [component.{}]", name.value);
            self.error(Code::WrongKind, item, message, remedy);
            return None;
        };
        self.check_name(&name);
        let mut draft = ComponentDraft {
            name,
            stock: None,
            executable: None,
            has_program: table.contains_key("type") || table.contains_key("exec"),
            placement: None,
            restart: None,
            priority: None,
            cpus: Vec::new(),
            dispatch: None,
            properties: Vec::new(),
            unknown_keys: Vec::new(),
        };
        for (key, value) in in_order(table) {
            match key.get_ref().as_ref() {
                "type" => draft.stock = self.text(value, "type"),
                "exec" => draft.executable = self.text(value, "exec"),
                "placement" => draft.placement = self.word(value, "placement", &PLACEMENTS),
                "restart" => draft.restart = self.word(value, "restart", &RESTARTS),
                "priority" => {
                    let number = self.integer(value, "priority", 1, 99);
                    draft.priority = number.and_then(|at| u8::try_from(at.value).ok());
                }
                "cpu" => draft.cpus = self.cpus(value),
                "dispatch" => draft.dispatch = self.dispatch(value),
                "properties" => draft.properties = self.properties(value),
                _ => draft
                    .unknown_keys
                    .push(At { value: key.get_ref().to_string(), place: self.place(key.span()) }),
            }
        }
        Some(draft)
    }

    fn properties(&mut self, item: &Item) -> Vec<Property> {
        let Some(table) = self.table(item, "properties") else { return Vec::new() };
        let mut properties = Vec::new();
        for (key, value) in in_order(table) {
            properties.push(Property {
                name: At { value: key.get_ref().to_string(), place: self.place(key.span()) },
                value: At { value: self.property_value(value), place: self.place(value.span()) },
            });
        }
        properties
    }

    fn property_value(&mut self, item: &Item) -> Option<Value> {
        match item.get_ref() {
            DeValue::Boolean(value) => Some(Value::Boolean(*value)),
            DeValue::Integer(_) => self.whole(item).map(Value::Integer),
            // A number too large for its type becomes infinite, which no property accepts.
            DeValue::Float(value) => value.as_str().parse().ok().map(Value::Float),
            DeValue::String(text) => Some(Value::Text(text.to_string())),
            other => {
                let message = format!("a property is not {}", noun(other));
                self.error(Code::BadProperty, item, message, "it is a number, a text, or true or false");
                None
            }
        }
    }

    fn cpus(&mut self, item: &Item) -> Vec<At<usize>> {
        let one = std::slice::from_ref(item);
        let items = match item.get_ref() {
            DeValue::Array(items) => items.iter().as_slice(),
            _ => one,
        };
        if items.is_empty() {
            self.error(
                Code::BadValue,
                item,
                "`cpu` lists no processor",
                "name one or more, as [0, 1], or leave `cpu` out",
            );
        }
        let mut cpus: Vec<At<usize>> = Vec::new();
        for item in items {
            let Some(cpu) = self.integer(item, "cpu", 0, CPU_MAX) else { continue };
            let value = usize::try_from(cpu.value).unwrap_or_default();
            if cpus.iter().all(|known| known.value != value) {
                cpus.push(At { value, place: cpu.place });
            }
        }
        cpus
    }

    pub(super) fn connections(&mut self, item: &Item) -> Vec<ConnectionDraft> {
        let list: &DeArray = match item.get_ref() {
            DeValue::Array(list) => list,
            other => {
                let message = format!("`connection` is {}", noun(other));
                let remedy = "write [[connection]], with two brackets, for each connection";
                self.error(Code::WrongKind, item, message, remedy);
                // A table in single brackets is meant as a connection.
                return if other.is_table() {
                    self.connection(item).into_iter().collect()
                } else {
                    Vec::new()
                };
            }
        };
        list.iter().filter_map(|item| self.connection(item)).collect()
    }

    fn connection(&mut self, item: &Item) -> Option<ConnectionDraft> {
        const KEYS: [&str; 16] = [
            "from",
            "to",
            "transport",
            "overflow",
            "depth",
            "high-watermark",
            "low-watermark",
            "flow",
            "send-timeout-ms",
            "scope",
            "deadline-ms",
            "resequence",
            "buffer",
            "wait",
            "huge-pages",
            "locked",
        ];
        let table = self.table(item, "connection")?;
        let mut draft = ConnectionDraft {
            place: self.place(item.span()),
            from: None,
            to: None,
            transport: None,
            overflow: None,
            depth: None,
            high_watermark: None,
            low_watermark: None,
            flow: None,
            send_timeout_ms: None,
            scope: None,
            deadline_ms: None,
            resequence: None,
            buffer: None,
            wait: None,
            huge_pages: None,
            locked: None,
        };
        for (key, value) in in_order(table) {
            match key.get_ref().as_ref() {
                "from" => draft.from = self.text(value, "from"),
                "to" => draft.to = self.text(value, "to"),
                "transport" => draft.transport = self.text(value, "transport"),
                "overflow" => {
                    let words = Overflow::ALL.map(|policy| (policy.as_str(), policy));
                    draft.overflow = self.word(value, "overflow", &words).map(|at| at.value);
                }
                "depth" => {
                    let depth = self.integer(value, "depth", 1, i64::from(LinkOptions::DEPTH_MAX));
                    draft.depth = depth.and_then(|at| u32::try_from(at.value).ok());
                }
                "high-watermark" => draft.high_watermark = self.packets(value, "high-watermark", 1),
                "low-watermark" => draft.low_watermark = self.packets(value, "low-watermark", 0),
                "flow" => {
                    let words = Flow::ALL.map(|flow| (flow.as_str(), flow));
                    draft.flow = self.word(value, "flow", &words);
                }
                "send-timeout-ms" => {
                    let max = i64::from(LinkOptions::DEADLINE_MS_MAX);
                    let timeout = self.integer(value, "send-timeout-ms", 1, max);
                    draft.send_timeout_ms = timeout.and_then(|at| u32::try_from(at.value).ok());
                }
                "scope" => {
                    let words = Scope::ALL.map(|scope| (scope.as_str(), scope));
                    draft.scope = self.word(value, "scope", &words).map(|at| at.value);
                }
                "deadline-ms" => {
                    let max = i64::from(LinkOptions::DEADLINE_MS_MAX);
                    let deadline = self.integer(value, "deadline-ms", 1, max);
                    draft.deadline_ms = deadline.and_then(|at| u32::try_from(at.value).ok());
                }
                "resequence" => {
                    let place = self.place(value.span());
                    draft.resequence = self.resequence(value).map(|value| At { value, place });
                }
                "buffer" => draft.buffer = self.buffer(value),
                "wait" => {
                    let words = WaitStrategy::ALL.map(|wait| (wait.as_str(), wait));
                    draft.wait = self.word(value, "wait", &words).map(|at| at.value);
                }
                "huge-pages" => draft.huge_pages = self.truth(value, "huge-pages"),
                "locked" => draft.locked = self.truth(value, "locked"),
                "group" => {
                    let place = self.place(key.span());
                    let remedy = "all processes of a waveform belong to the user that starts it, and no other user \
                                  can find their connections; publish on a topic of a domain with a group instead";
                    let message = "a connection has no `group`";
                    self.found.push(Diagnostic::error(Code::UnknownKey, &place, message).help(remedy));
                }
                _ => self.unknown_key(key, &KEYS),
            }
        }
        for key in ["from", "to"] {
            if !table.contains_key(key) {
                let example = if key == "from" { "from = \"source.out\"" } else { "to = \"sink.in\"" };
                self.error(
                    Code::MissingKey,
                    item,
                    format!("this connection has no `{key}`"),
                    format!("add a line such as {example}"),
                );
            }
        }
        Some(draft)
    }

    fn dispatch(&mut self, item: &Item) -> Option<At<Dispatch>> {
        let text = self.text(item, "dispatch")?;
        match text.value.parse() {
            Ok(value) => Some(At { value, place: text.place }),
            Err(error) => {
                let (what, remedy) = error.split_once("; ").unwrap_or((&error, ""));
                self.error(Code::BadValue, item, format!("`dispatch`: {what}"), remedy);
                None
            }
        }
    }

    fn resequence(&mut self, item: &Item) -> Option<Resequence> {
        const EXAMPLE: &str = "write resequence = { window = 4096, skip-after-ms = 1000 }";
        let table = self.table(item, "resequence")?;
        let (mut window, mut skip_after_ms) = (None, None);
        for (key, value) in in_order(table) {
            let (name, place, min, max) = match key.get_ref().as_ref() {
                "window" => ("window", &mut window, 1, Resequence::WINDOW_MAX),
                "skip-after-ms" => ("skip-after-ms", &mut skip_after_ms, 0, Resequence::SKIP_AFTER_MS_MAX),
                _ => {
                    self.unknown_key(key, &["window", "skip-after-ms"]);
                    continue;
                }
            };
            let number = self.integer(value, name, min, i64::from(max));
            *place = number.and_then(|at| u32::try_from(at.value).ok());
        }
        for key in ["window", "skip-after-ms"] {
            if !table.contains_key(key) {
                self.error(Code::MissingKey, item, format!("`resequence` has no `{key}`"), EXAMPLE);
            }
        }
        let (window, skip_after_ms) = (window?, skip_after_ms?);
        let skip_after = Duration::from_millis(skip_after_ms.into());
        // Both are in range here.
        Resequence::new(window as usize, skip_after).ok()
    }

    fn buffer(&mut self, item: &Item) -> Option<u32> {
        let bytes = match item.get_ref() {
            DeValue::Integer(_) => self.whole(item)?.try_into().ok(),
            DeValue::String(text) => bytes_of(text),
            other => {
                let message = format!("`buffer` takes a number of bytes or a text, not {}", noun(other));
                self.error(Code::WrongKind, item, message, "write it as \"2MiB\", \"512KiB\" or 2097152");
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
            (None, None) => {
                ("`buffer` is no number of bytes", "write it as \"2MiB\", \"512KiB\" or 2097152".into())
            }
        };
        self.error(Code::BadValue, item, message, remedy);
        None
    }

    // The following functions read one value of one kind.

    fn table<'t, 'i>(&mut self, item: &'t Item<'i>, key: &str) -> Option<&'t DeTable<'i>> {
        let table = item.get_ref().as_table();
        if table.is_none() {
            self.kind(item, key, "a table");
        }
        table
    }

    fn text(&mut self, item: &Item, key: &str) -> Option<At<String>> {
        match item.get_ref() {
            DeValue::String(text) => Some(At { value: text.to_string(), place: self.place(item.span()) }),
            _ => {
                self.kind(item, key, "a text");
                None
            }
        }
    }

    fn truth(&mut self, item: &Item, key: &str) -> Option<At<bool>> {
        match item.get_ref() {
            DeValue::Boolean(value) => Some(At { value: *value, place: self.place(item.span()) }),
            _ => {
                self.kind(item, key, "true or false");
                None
            }
        }
    }

    fn integer(&mut self, item: &Item, key: &str, min: i64, max: i64) -> Option<At<i64>> {
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
            self.error(
                Code::BadValue,
                item,
                format!("`{key}` is {value}"),
                format!("it must be from {min} to {max}"),
            );
            return None;
        }
        Some(At { value, place: self.place(item.span()) })
    }

    /// Reads a number of packets, from `min` to the largest depth.
    fn packets(&mut self, item: &Item, key: &str, min: i64) -> Option<At<u32>> {
        let At { value, place } = self.integer(item, key, min, i64::from(LinkOptions::DEPTH_MAX))?;
        u32::try_from(value).ok().map(|value| At { value, place })
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

    fn word<T: Copy>(&mut self, item: &Item, key: &str, words: &[(&str, T)]) -> Option<At<T>> {
        let text = self.text(item, key)?;
        let known = words.iter().find(|(word, _)| *word == text.value);
        if known.is_none() {
            let all = words.iter().map(|&(word, _)| word);
            let message = format!("`{key}` cannot be {}", quoted(&text.value));
            let remedy = format!("it is one of {}", listed(all, "and"));
            self.error(Code::BadValue, item, message, remedy);
        }
        known.map(|&(_, value)| At { value, place: text.place })
    }

    fn check_name(&mut self, name: &At<String>) {
        if !is_name(&name.value) {
            let message = format!("{} is no name", quoted(&name.value));
            let remedy = format!("use 1 to {NAME_BYTES_MAX} letters, digits, `-` and `_`");
            self.found.push(Diagnostic::error(Code::BadName, &name.place, message).help(remedy));
        }
    }

    fn kind(&mut self, item: &Item, key: &str, wanted: &str) {
        let message = format!("`{key}` takes {wanted}, not {}", noun(item.get_ref()));
        self.error(Code::WrongKind, item, message, "");
    }

    /// Returns whether the count is within the limit, above which a waveform is not read.
    pub(super) fn is_within_limit(&mut self, item: &Item, len: usize, max: usize, noun: &str) -> bool {
        if len > max {
            let message = format!("the waveform has {}, which is more than {max}", count(len, noun));
            self.error(Code::Limit, item, message, "split it into several waveforms");
        }
        len <= max
    }

    pub(super) fn unknown_key(&mut self, key: &Key, known: &[&str]) {
        let name = key.get_ref();
        let remedy = did_you_mean(name, known.iter().copied(), "the keys here are");
        let place = self.place(key.span());
        let message = format!("unknown key {}", quoted(name));
        self.found.push(Diagnostic::error(Code::UnknownKey, &place, message).help(remedy));
    }

    fn error(&mut self, code: Code, item: &Item, message: impl Into<String>, remedy: impl Into<String>) {
        let place = self.place(item.span());
        self.found.push(Diagnostic::error(code, &place, message).help(remedy));
    }

    fn place(&self, span: std::ops::Range<usize>) -> Place {
        Place::new(self.source, span)
    }
}

const PLACEMENTS: [(&str, Placement); 2] = [("process", Placement::Process), ("thread", Placement::Thread)];
const RESTARTS: [(&str, Restart); 2] = [("never", Restart::Never), ("on-failure", Restart::OnFailure)];

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
