//! Checks a topics file and reports each finding with a place.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use serde::Deserialize;
use stripline::internal::{TopicsProblem, parse_topics};
use stripline::node::Topics;
use stripline::terms::WaitStrategy;
use stripline::transport::AUTO;
use toml::de::DeTable;

use super::diagnostics::{Code, Diagnostics, Place, Source};
use super::file::{source, tables};
use super::toml_reader::TableReader;
use super::transport_choice::{TransportChoice, of_topic};

/// Checks a topics file that has already been read; `path` is its nominal path.
///
/// # Errors
/// All problems of the keys and values. If there are none, all values that do not fit together.
///
/// ```
/// use stripline_waveform::internal::check_topics;
///
/// let text = b"[topic.iq]\ndepht = 4\n\n[topic.levels]\ntransport = \"uss\"\n";
/// let found = check_topics(text, "topics.toml".as_ref()).unwrap_err();
/// let lines: Vec<_> = found.iter().map(|finding| finding.line_column().0).collect();
/// assert_eq!(lines, [2, 5]);
/// assert!(found.to_string().contains("did you mean `depth`?"));
/// ```
pub fn check_topics(bytes: &[u8], path: &Path) -> Result<Topics, Diagnostics> {
    let source = source(bytes, path)?;
    let mut found = Diagnostics::default();
    if let Some(root) = tables(&source, &mut found) {
        TableReader::new(&source, &mut found, root.get_ref()).topics();
        if !found.has_errors() {
            match parse_topics(source.text()) {
                Ok(topics) => return Ok(topics),
                Err(problems) => problems.iter().for_each(|p| report(p, root.get_ref(), &source, &mut found)),
            }
        }
    }
    found.sort();
    Err(found)
}

/// The choice of a topic's transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicChoice {
    /// The name of the topic; `None` stands for every topic without a table.
    pub topic: Option<String>,
    /// The name of the transport.
    pub transport: String,
    /// The wait strategy of the ports.
    pub wait: WaitStrategy,
    /// The candidates from which the transport was chosen.
    pub choice: TransportChoice,
}

/// Returns the choice for each topic of a file that has passed [`check_topics`], and the choice for
/// all other topics.
///
/// ```
/// use stripline_waveform::internal::{check_topics, topic_choices};
///
/// let text = b"[topic.iq]\ntransport = \"uds\"\n";
/// let topics = check_topics(text, "topics.toml".as_ref()).unwrap();
/// let choices = topic_choices(text, &topics, &["inproc", "shm", "uds"]);
/// let taken: Vec<_> = choices.iter().map(|choice| choice.transport.as_str()).collect();
/// assert_eq!(taken, ["shm", "uds"]);
/// ```
pub fn topic_choices(bytes: &[u8], topics: &Topics, transports: &[&str]) -> Vec<TopicChoice> {
    #[derive(Default, Deserialize)]
    struct TopicTransport {
        #[serde(default)]
        transport: Option<String>,
    }
    #[derive(Default, Deserialize)]
    struct File {
        #[serde(default)]
        default: TopicTransport,
        #[serde(default)]
        topic: BTreeMap<String, TopicTransport>,
    }
    // The same bytes have passed the check.
    let file: File = toml::from_slice(bytes).unwrap_or_default();
    let base = file.default.transport.as_deref().unwrap_or(AUTO);
    let choice = |topic: Option<&str>, named: &str| {
        // This name cannot have a table, so it has the options of all other topics.
        let options = topics.of(topic.unwrap_or("\0"));
        TopicChoice {
            topic: topic.map(String::from),
            transport: options.transport.clone(),
            wait: options.link.wait,
            choice: of_topic(named, &options.link, transports),
        }
    };
    let own = file.topic.iter();
    std::iter::once(choice(None, base))
        .chain(own.map(|(name, entry)| choice(Some(name), entry.transport.as_deref().unwrap_or(base))))
        .collect()
}

fn report(problem: &TopicsProblem, root: &DeTable, source: &Arc<Source>, found: &mut Diagnostics) {
    let text = problem.error.to_string();
    let (message, remedy) = text.split_once("; ").unwrap_or((&text, ""));
    let place = Place::new(source, span_of(problem, message, root));
    found.error(Code::BadValue, &place, message, remedy);
}

/// Returns the place of the value that the message names, or else the place of the table's name.
fn span_of(problem: &TopicsProblem, message: &str, root: &DeTable) -> Range<usize> {
    let (mut table, mut span) = (root, 0..0);
    for key in &problem.path {
        let Some((name, item)) = table.get_key_value(key.as_str()) else { break };
        span = name.span();
        let Some(inner) = item.get_ref().as_table() else { break };
        table = inner;
    }
    // The name of the topic is not a key of its table.
    let message = message.split_once("`: ").map_or(message, |(_, rest)| rest);
    // The longest key that occurs in the message is the one meant: `overflow` also contains `flow`.
    let named = table.iter().filter(|(key, _)| message.contains(key.get_ref().as_ref()));
    named.max_by_key(|(key, _)| key.get_ref().len()).map_or(span, |(_, item)| item.span())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<(usize, String)> {
        let found = check_topics(text.as_bytes(), "t.toml".as_ref()).expect_err(text);
        found.iter().map(|f| (f.line_column().0, format!("{}; {}", f.message(), f.remedy()))).collect()
    }

    #[test]
    fn all_findings_have_their_lines() {
        for (text, expected) in [
            (
                "[topic.a]\ndepht = 4\ndepth = 0\n\n[topic.b]\noverflow = 'explode'\n[topics]\n",
                &[
                    (2, "did you mean `depth`?"),
                    (3, "`depth` is 0"),
                    (6, "`overflow` cannot be `explode`"),
                    (7, "did you mean `topic`?"),
                ][..],
            ),
            ("[domain]\ngruop = 'x'", &[(2, "did you mean `group`?")]),
            ("name = 'x'\n[topic.a]\nqueue = 4", &[(1, "the topics' names"), (3, "did you mean `depth`?")]),
            ("depth = 4\n[topic.a]\nname = 'a'", &[(1, "or into [default]"), (3, "the name of its table")]),
            ("[default]\ntransport = 'smh'", &[(2, "did you mean `shm`?")]),
            ("[topic]\na = 4\n", &[(2, "[topic.a]")]),
            ("[topic.a]\nbuffer = '2MiB'", &[(2, "write buffer = 2097152")]),
            ("[topic.a]\nsampling = 'some'", &[(2, "`auto`")]),
            ("[topic.a]\nrefusal-is-error = 'yes'", &[(2, "true or false")]),
            ("[topic.a]\ntypes-without-layout = 'det'", &[(2, "a list of names")]),
            ("[default]\ntypes-without-layout = ['a', 'f32']", &[(2, "`f32` has a layout")]),
            ("[topic.a]\ndispatch = 'pool(0)'", &[(2, "a pool of 0 threads")]),
            ("topic = 3", &[(1, "a table")]),
            ("[topic.a]\n[topic.a]\n", &[(2, "already taken")]),
            ("[topic.a\n", &[(1, "this is not TOML")]),
            // Values that do not fit together.
            (
                "[topic.a]\ndepth = 4\nhigh-watermark = 65\n[topic.b]\nhuge-pages = true\ntransport = 'uds'",
                &[(3, "high-watermark is 65"), (5, "use inproc or shm")],
            ),
            ("\n[topic.a]\ndepth = 4\ngroup = 'no-such-group'", &[(4, "group")]),
            ("[domain]\ngroup = 'no-such-group'", &[(2, "no-such-group")]),
            (
                "[topic.a]\ntransport = 'udp'\n[topic.a.udp]\ntll = 3\nttl = 300\nbind = 'x'\nrepair = 'no'",
                &[
                    (4, "did you mean `ttl`?"),
                    (5, "`ttl` is 300"),
                    (6, "an IP address of this host"),
                    (7, "`needed` and `never`"),
                ],
            ),
            ("[topic.a]\ntransport = 'udp'\n[topic.a.udp]\nbind = '192.0.2.1'", &[(4, "insecure = true")]),
            ("[topic.a.udp]\nttl = 3", &[(1, "the topic's is `shm`")]),
            ("[default]\ntransport = 'tcp'\nlocked = true", &[(2, "cannot keep locked")]),
        ] {
            let found = findings(text);
            assert_eq!(found.len(), expected.len(), "{text}: {found:#?}");
            for ((line, message), (at, words)) in found.iter().zip(expected) {
                assert!(line == at && message.contains(words), "{text}: {found:#?}");
            }
        }
    }

    #[test]
    fn what_the_parser_takes_has_no_findings() {
        for text in [
            "",
            "[domain]\n[default]\ntransport = 'auto'\n[topic.a]\ntransport = 'uds'",
            "[domain]\n[default]\ntransport = 'uds'\nscope = 'server'\ndeadline-ms = 3600000\n[topic.'a b']\n\
             depth = 1\noverflow = 'drop-oldest'",
            "[topic.a]\nresequence = { window = 65536, skip-after-ms = 0 }\nbuffer = 4096\nsampling = 'off'\n\
             dispatch = 'pool(256)'\nwait = 'spin'\nrefusal-is-error = true\nsend-timeout-ms = 1\n\
             types-without-layout = ['det']",
            "[topic.a]\ntransport = 'udp'\n[topic.a.udp]\ninsecure = true\nbind = '192.0.2.1'\nrepair = 'never'\n\
             reorder-ms = 0\nbuffer = 4096\nttl = 255\ngroup = '239.1.2.3:5000'\ninterface = 'eth0'\npace-mbps = 1",
            "[default.tcp]\nbind = '127.0.0.2'",
            "[default.zenoh]\nbind = '127.0.0.2'\ninsecure = true\nrouter = '192.0.2.1:7447'",
            "[default.corba]\nbind = '192.0.2.1'\ninsecure = true",
        ] {
            assert!(Topics::parse(text).is_ok(), "{text}");
            assert!(check_topics(text.as_bytes(), "t.toml".as_ref()).is_ok(), "{text}");
        }
    }

    #[test]
    fn a_topic_takes_the_transport_that_it_names_or_shm() {
        let text = "[default]\ntransport = 'tcp'\n[topic.a]\ntransport = 'auto'\nlocked = true\nwait = 'spin'\n\
                    [topic.b]\n";
        let topics = check_topics(text.as_bytes(), "t.toml".as_ref()).unwrap();
        let choices = topic_choices(text.as_bytes(), &topics, &["inproc", "shm", "uds", "tcp"]);
        let taken: Vec<_> = choices
            .iter()
            .map(|c| (c.topic.as_deref(), c.transport.as_str(), c.choice.by.to_string()))
            .collect();
        let by_file = |topic| (topic, "tcp", "the file".to_string());
        assert_eq!(taken, [by_file(None), (Some("a"), "shm", "auto".into()), by_file(Some("b"))]);
        assert_eq!(choices[1].wait, WaitStrategy::Spin);
        let rules: Vec<_> =
            choices[1].choice.candidates.iter().map(|c| c.struck_out.as_deref().unwrap_or("")).collect();
        let locked = "it cannot keep locked (it has no ring of memory)";
        assert_eq!(rules, ["the peers of a topic may be in other processes", "", locked, locked]);
        assert_eq!(choices[0].choice.candidates[1].struck_out.as_deref(), Some("the file names `tcp`"));
    }

    #[test]
    fn bytes_that_are_no_text_are_refused() {
        let found = check_topics(b"[topic.a]\n\xff", "t.toml".as_ref()).unwrap_err();
        assert!(found.to_string().contains("not UTF-8"), "{found}");
    }
}
