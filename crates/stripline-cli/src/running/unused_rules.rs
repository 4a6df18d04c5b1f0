//! Rules of topics files that no process has used.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Serialize;
use stripline::inspect::{Overview, TopicsFile};
use stripline_waveform::internal::suggestion;

/// A rule of a topics file that no process with this file has used so far.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct UnusedRule {
    pub file: String,
    topic: String,
    /// The topic in use with the nearest name.
    nearest: Option<String>,
}

impl fmt::Display for UnusedRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: no topic has used the rule [topic.{}] so far", self.file, self.topic)?;
        match &self.nearest {
            Some(nearest) => write!(f, "; did you mean `{nearest}`?"),
            None => Ok(()),
        }
    }
}

fn files(overview: &Overview) -> impl Iterator<Item = &TopicsFile> {
    overview.processes.iter().flat_map(|process| &process.topics_files)
}

/// Returns the rules of all topics files that no process has used. Several programs may share a
/// file, and each may use only a part of it.
pub(crate) fn unused_rules(overview: &Overview) -> Vec<UnusedRule> {
    let mut of_file: BTreeMap<&str, BTreeSet<&String>> = BTreeMap::new();
    for file in files(overview) {
        let own: BTreeSet<_> = file.unused.iter().collect();
        let unused = of_file.entry(&file.path).or_insert_with(|| own.clone());
        unused.retain(|topic| own.contains(topic));
    }
    let mut rules = Vec::new();
    for (path, topics) in of_file {
        let with_file = overview
            .processes
            .iter()
            .filter(|process| process.topics_files.iter().any(|file| file.path == path));
        let ports = with_file.flat_map(|process| {
            let sending = process.sending.iter().map(|port| port.name.as_str());
            sending.chain(process.receiving.iter().map(|port| port.name.as_str()))
        });
        let ports: BTreeSet<&str> = ports.collect();
        for topic in topics {
            let nearest = suggestion(topic, ports.iter().copied()).map(String::from);
            rules.push(UnusedRule { file: path.into(), topic: topic.clone(), nearest });
        }
    }
    rules
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_that_no_process_with_the_file_has_used_are_shown() {
        let text = r#"{ "problems": [], "processes": [
            { "pid": 1, "sending": [{ "name": "iq" }],
              "topics_files": [{ "path": "/a.toml", "unused": ["audio", "iqq", "zzzzzz"] }] },
            { "pid": 2, "receiving": [{ "name": "audio" }],
              "topics_files": [{ "path": "/a.toml", "unused": ["iq", "iqq", "zzzzzz"] },
                               { "path": "/b.toml", "unused": [] }] } ] }"#;
        let overview: Overview = serde_json::from_str(text).unwrap();
        let texts: Vec<String> = unused_rules(&overview).iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "/a.toml: no topic has used the rule [topic.iqq] so far; did you mean `iq`?",
                "/a.toml: no topic has used the rule [topic.zzzzzz] so far"
            ]
        );
    }
}
