//! The key `exec`: an executable, or an interpreter with a script.

use std::path::Path;

use serde_json::json;

use super::{Item, TableReader};
use crate::diagnostics::{At, Code};
use crate::program_command::ProgramCommand;

/// The maximum number of strings in a list.
const TEXTS_MAX: usize = 64;

/// A program, as written in the file.
pub(crate) struct ProgramText {
    /// The first or only string.
    pub program: String,
    /// The remaining strings of a list; `None` if the value is a single string.
    arguments: Option<Vec<String>>,
}

impl ProgramText {
    /// Returns the program and its arguments as one string.
    pub(crate) fn text(&self) -> String {
        let arguments = self.arguments.iter().flatten();
        std::iter::once(&self.program).chain(arguments).map(String::as_str).collect::<Vec<_>>().join(" ")
    }

    /// Returns the command that starts the program. Paths are relative to `folder`, the folder of
    /// the file.
    pub(crate) fn command(&self, folder: &Path) -> ProgramCommand {
        match &self.arguments {
            None => folder.join(&self.program).into(),
            Some(arguments) => ProgramCommand::find(&self.program, arguments, folder),
        }
    }
}

impl TableReader<'_, '_> {
    pub(super) fn program(&mut self) -> Option<At<ProgramText>> {
        const KEY: &str = "exec";
        let shape = || {
            let text = json!({ "type": "string", "minLength": 1 });
            let list = json!({ "type": "array", "items": text, "minItems": 1, "maxItems": TEXTS_MAX });
            json!({ "anyOf": [text, list] })
        };
        let item = self.value(KEY, shape)?;
        let place = self.place(item.span());
        let Some(items) = item.get_ref().as_array() else {
            let text = item.get_ref().as_str().map(String::from);
            if text.is_none() {
                self.kind(item, KEY, "a text or a list of texts");
            }
            return text.map(|program| At { value: ProgramText { program, arguments: None }, place });
        };
        if items.len() > TEXTS_MAX {
            let message = format!("`{KEY}` has {} texts, which is more than {TEXTS_MAX}", items.len());
            self.error(Code::Limit, item, message, "name a script that starts the program with them");
            return None;
        }
        let mut texts = items.iter().map(|item| self.program_part(item)).collect::<Option<Vec<String>>>()?;
        if texts.is_empty() {
            let remedy = "name a program, and its script, as [\"python3\", \"gain.py\"]";
            self.error(Code::BadValue, item, format!("`{KEY}` is an empty list"), remedy);
            return None;
        }
        let program = texts.remove(0);
        Some(At { value: ProgramText { program, arguments: Some(texts) }, place })
    }

    fn program_part(&mut self, item: &Item) -> Option<String> {
        let Some(text) = item.get_ref().as_str() else {
            self.kind(item, "exec", "a text or a list of texts");
            return None;
        };
        if text.is_empty() || text.contains('\0') {
            let message = "a text of `exec` is empty or has a null character";
            self.error(Code::BadValue, item, message, "write each argument as a text of its own");
            return None;
        }
        Some(text.into())
    }
}
