//! The rules of a topics file that no port of this process has used.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Mutex;

use super::client::NAME_MAX;
use super::types::TopicsFile;
use crate::sys::mutex::lock;

/// The most rules shown for a file.
const RULES_MAX: usize = 256;

/// A topics file and the rules that were not used yet.
#[derive(Debug)]
pub(crate) struct TopicRules {
    file: String,
    unused: Mutex<BTreeSet<String>>,
}

impl TopicRules {
    /// Takes the topics of a file that has been read.
    pub(crate) fn new(path: &Path, topics: impl Iterator<Item = String>) -> Self {
        // The full path is used, so that several processes give the same name to a file.
        let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        Self { file: path.to_string_lossy().into_owned(), unused: Mutex::new(topics.collect()) }
    }

    /// Marks the rule of a topic as used.
    pub(crate) fn mark(&self, topic: &str) {
        lock(&self.unused).remove(topic);
    }

    /// Returns the view; `None`: the path is longer than the longest allowed name.
    pub(super) fn view(&self) -> Option<TopicsFile> {
        let unused = lock(&self.unused);
        let names = unused.iter().filter(|topic| topic.len() <= NAME_MAX).take(RULES_MAX);
        let view = TopicsFile { path: self.file.clone(), unused: names.cloned().collect() };
        (self.file.len() <= NAME_MAX).then_some(view)
    }
}
