//! The transport and options of each topic, configured at run time.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::inspect::{self, TopicRules};
use crate::link::Sampling;
use crate::packet::payload::TypeName;
use crate::terms::{
    Flow, Group, LinkOptions, Overflow, Resequence, Scope, TcpOptions, TransportOptions, UdpOptions,
    WaitStrategy, ZenohOptions,
};
use crate::transport;

use super::Dispatch;

/// The longest name of a topic, in bytes.
const TOPIC_MAX: usize = 255;

/// The options of topics, from a TOML text.
///
/// ```
/// use stripline::node::Topics;
///
/// let topics = Topics::parse(r#"
///     [default]
///     transport = "shm"
///
///     [topic.spectrum]
///     transport = "uds"
///     overflow = "drop-oldest"
///     depth = 4
/// "#)?;
/// assert_eq!(topics.of("spectrum").transport, "uds");
/// assert_eq!(topics.of("anything else").transport, "shm");
/// # Ok::<(), stripline::Error>(())
/// ```
///
/// A domain is open to the processes of one user. With a group in `[domain]` it is also open to the
/// members of that group, and so is every topic in it. A topic may set another `group`. Each side
/// of a link gets the other side's user from the kernel. With a group, `tcp` is refused where the
/// kernel cannot name that user.
///
/// ```
/// use stripline::node::Topics;
///
/// let text = "[domain]\ngroup = 'no such group'\n[topic.spectrum]\ntransport = 'shm'\nlocked = true";
/// assert!(Topics::parse(text).unwrap_err().to_string().contains("no such group"));
/// ```
#[derive(Clone, Debug, Default)]
pub struct Topics {
    group: Option<Group>,
    default: TopicOptions,
    topics: BTreeMap<String, TopicOptions>,
    /// The rules that were not used yet, if the topics come from a file.
    rules: Option<Arc<TopicRules>>,
}

/// The options of one topic. The sending side uses `transport`, `scope`, `deadline-ms`,
/// `send-timeout-ms`, `buffer`, `wait`, `huge-pages`, `locked`, `group`, `sampling`,
/// `types-without-layout` and the tables `tcp` and `udp`. Under scope `none` it also uses `depth`
/// and the watermarks. The receiving side uses `overflow`, `depth`, `high-watermark`,
/// `low-watermark`, `flow`, `wait`, `locked`, `group`, `dispatch`, `resequence`,
/// `refusal-is-error`, `types-without-layout` and the tables `tcp` and `udp`.
///
/// ```
/// use stripline::link::Sampling;
/// use stripline::terms::LinkOptions;
/// use stripline::node::{Dispatch, TopicOptions, Topics};
///
/// let (transport, link) = ("shm".into(), LinkOptions::default());
/// let (dispatch, sampling, refusal_is_error) = (Dispatch::Queue, Sampling::Auto, false);
/// let types_without_layout = Vec::new();
/// let shm =
///     TopicOptions { transport, link, dispatch, sampling, refusal_is_error, types_without_layout };
/// assert_eq!(*Topics::default().of("any"), shm);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicOptions {
    /// The name of the transport. `auto` in a file becomes `shm` here.
    pub transport: String,
    /// The link's options.
    pub link: LinkOptions,
    /// The dispatch of the handlers of the topic's subscribers: see
    /// [`Subscriber::dispatch`](super::Subscriber::dispatch).
    pub dispatch: Dispatch,
    /// The packets that are measured.
    pub sampling: Sampling,
    /// Whether a subscriber's next receive returns an error for a sender that it cannot connect to.
    /// [`Subscriber::refusals`](super::Subscriber::refusals) lists the sender in any case.
    pub refusal_is_error: bool,
    /// The types without a layout that may be exchanged with a program that is built differently.
    pub types_without_layout: Vec<TypeName>,
}

impl Default for TopicOptions {
    fn default() -> Self {
        Self {
            transport: "shm".into(),
            link: LinkOptions::default(),
            dispatch: Dispatch::Queue,
            sampling: Sampling::Auto,
            refusal_is_error: false,
            types_without_layout: Vec::new(),
        }
    }
}

impl TopicOptions {
    /// Returns the link's options for a port of this type.
    pub(super) fn link_of(&self, payload: &TypeName) -> LinkOptions {
        LinkOptions { any_build: self.allows(payload), ..self.link }
    }

    /// Returns whether a type may be exchanged with a program that is built differently.
    pub(super) fn allows(&self, payload: &TypeName) -> bool {
        self.types_without_layout.contains(payload)
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    domain: DomainEntry,
    #[serde(default)]
    default: TopicEntry,
    #[serde(default)]
    topic: BTreeMap<String, TopicEntry>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct DomainEntry {
    group: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct TopicEntry {
    transport: Option<String>,
    overflow: Option<Overflow>,
    depth: Option<u32>,
    high_watermark: Option<u32>,
    low_watermark: Option<u32>,
    flow: Option<Flow>,
    send_timeout_ms: Option<u32>,
    scope: Option<Scope>,
    deadline_ms: Option<u32>,
    dispatch: Option<Dispatch>,
    resequence: Option<ResequenceEntry>,
    buffer: Option<u32>,
    wait: Option<WaitStrategy>,
    huge_pages: Option<bool>,
    locked: Option<bool>,
    group: Option<String>,
    sampling: Option<Sampling>,
    refusal_is_error: Option<bool>,
    types_without_layout: Option<Vec<String>>,
    tcp: Option<TcpOptions>,
    udp: Option<UdpOptions>,
    zenoh: Option<ZenohOptions>,
    corba: Option<TcpOptions>,
}

/// The table of `resequence = { window = 4096, skip-after-ms = 1000 }`.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ResequenceEntry {
    window: u32,
    skip_after_ms: u32,
}

impl Topics {
    /// Parses a configuration.
    ///
    /// # Errors
    /// All mistakes with their places: an unknown key, transport or word, a number out of range, or
    /// an option that the transport cannot keep.
    pub fn parse(text: &str) -> Result<Self> {
        Self::parse_all(text).map_err(|mut problems| {
            if problems.len() == 1 {
                return problems.remove(0).error;
            }
            let lines: Vec<_> =
                problems.iter().map(|problem| problem.error.to_string().trim_end().to_string()).collect();
            Error::Configuration(format!("{} mistakes:\n{}", lines.len(), lines.join("\n")))
        })
    }

    /// Parses a configuration.
    ///
    /// # Errors
    /// One or more problems, as [`Topics::parse`] describes them. Problems of topics are reported
    /// only if all keys and values could be read.
    pub(crate) fn parse_all(text: &str) -> std::result::Result<Self, Vec<TopicsProblem>> {
        let at = |path: &[&str], error| TopicsProblem {
            path: path.iter().map(|key| key.to_string()).collect(),
            error,
        };
        let file = read(text).map_err(|wrong| {
            wrong.iter().map(|e| at(&[], Error::Configuration(format!("topics: {e}")))).collect::<Vec<_>>()
        })?;
        let named = |name: &String| {
            Group::named(name).map_err(|e| Error::Configuration(format!("topics: [domain] group: {e}")))
        };
        // All topics inherit the options of `[domain]` and `[default]`, so problems there come
        // first.
        let group = file.domain.group.as_ref().map(named).transpose();
        let group = group.map_err(|error| vec![at(&["domain"], error)])?;
        let link = LinkOptions { group, ..LinkOptions::default() };
        let default = file.default.over(&TopicOptions { link, ..TopicOptions::default() }, None);
        let default = default.map_err(|error| vec![at(&["default"], error)])?;
        let (mut topics, mut problems) = (BTreeMap::new(), Vec::new());
        for (name, entry) in &file.topic {
            match entry.over(&default, Some(name)) {
                Ok(options) => _ = topics.insert(name.clone(), options),
                Err(error) => problems.push(at(&["topic", name], error)),
            }
        }
        if problems.is_empty() { Ok(Self { group, default, topics, rules: None }) } else { Err(problems) }
    }

    /// Reads a configuration file.
    ///
    /// # Errors
    /// Same as [`Topics::parse`], or an unreadable file. The error names the path.
    ///
    /// ```
    /// let error = stripline::node::Topics::load("no/such/topics.toml".as_ref()).unwrap_err();
    /// assert!(error.to_string().contains("no/such/topics.toml"));
    /// ```
    pub fn load(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::system(format!("cannot read {}", path.display()), e))?;
        let mut topics =
            Self::parse(&text).map_err(|e| Error::Configuration(format!("{}: {e}", path.display())))?;
        topics.rules = Some(Arc::new(TopicRules::new(path, topics.topics.keys().cloned())));
        Ok(topics)
    }

    /// Shows in this process's view which rules of the file were not used.
    pub(crate) fn show(&self) {
        if let Some(rules) = &self.rules {
            inspect::register_rules(rules);
        }
    }

    /// Returns the group that the domain is open to.
    pub(crate) fn group(&self) -> Option<Group> {
        self.group
    }

    /// Returns the options of a topic.
    pub fn of(&self, topic: &str) -> &TopicOptions {
        if let Some(rules) = &self.rules {
            rules.mark(topic);
        }
        self.topics.get(topic).unwrap_or(&self.default)
    }
}

/// Checks the name of a topic: 1 to 255 bytes without control characters.
///
/// # Errors
/// [`Error::Port`].
pub(super) fn check_topic(topic: &str) -> Result<()> {
    if (1..=TOPIC_MAX).contains(&topic.len()) && !topic.contains(char::is_control) {
        return Ok(());
    }
    let shown: String = topic.escape_debug().take(80).collect();
    let problem = format!("is not a valid topic name: use 1 to {TOPIC_MAX} bytes without control characters");
    Err(Error::port(shown, problem))
}

/// Parses the keys and values of a topics file.
///
/// # Errors
/// All wrong keys and values, up to the first place that is not valid TOML.
fn read(text: &str) -> std::result::Result<File, Vec<toml::de::Error>> {
    let (mut rest, mut wrong) = (text.to_string(), Vec::new());
    loop {
        let error = match toml::from_str(&rest) {
            Ok(file) if wrong.is_empty() => return Ok(file),
            Ok(_) => return Err(wrong),
            Err(error) => error,
        };
        // The parser returns one error at a time, so the text is parsed again without the wrong
        // line.
        let line = error.span().and_then(|span| line_of_key(&rest, span.start));
        wrong.push(error);
        match line {
            Some(line) if toml::from_str::<toml::Table>(&rest).is_ok() => {
                rest.replace_range(line.clone(), &" ".repeat(line.len()));
            }
            _ => return Err(wrong),
        }
    }
}

/// Returns the line with that byte, without the line break, if it holds a key. A table's head is
/// not returned: without the head, the keys below it would belong to the previous table.
fn line_of_key(text: &str, at: usize) -> Option<Range<usize>> {
    let start = text.get(..at)?.rfind('\n').map_or(0, |end| end + 1);
    let end = text[at..].find('\n').map_or(text.len(), |length| at + length);
    let line = text[start..end].trim();
    (!line.is_empty() && !line.starts_with('[')).then_some(start..end)
}

/// A problem of a topics file beyond unreadable keys and values.
#[derive(Debug)]
pub struct TopicsProblem {
    /// The keys that lead to the table, for example `topic` and the topic's name. Empty for the
    /// whole file.
    pub path: Vec<String>,
    /// The problem.
    pub error: Error,
}

impl TopicEntry {
    /// Returns the options of a topic on top of `[default]`. Without a topic, returns the options
    /// of `[default]`.
    fn over(&self, base: &TopicOptions, topic: Option<&str>) -> Result<TopicOptions> {
        let name = topic.unwrap_or("default");
        let at = |problem: String| Error::Configuration(format!("topic `{name}`: {problem}"));
        let own_group = self.group.as_deref().map(Group::named).transpose().map_err(|e| at(e.to_string()))?;
        if own_group.is_some() && base.link.group.is_none() {
            return Err(at(
                "`group` needs a group in [domain] as well, so that its members can discover the topic"
                    .into(),
            ));
        }
        let resequence = self.resequence.map(|entry| {
            let skip_after = Duration::from_millis(entry.skip_after_ms.into());
            Resequence::new(entry.window as usize, skip_after)
        });
        let resequence = resequence.transpose().map_err(at)?;
        let own_tables =
            TransportOptions { tcp: self.tcp, udp: self.udp, zenoh: self.zenoh, corba: self.corba };
        let link = LinkOptions {
            overflow: self.overflow.unwrap_or(base.link.overflow),
            depth: self.depth.unwrap_or(base.link.depth),
            high_watermark: self.high_watermark.or(base.link.high_watermark),
            low_watermark: self.low_watermark.or(base.link.low_watermark),
            flow: self.flow.unwrap_or(base.link.flow),
            send_timeout_ms: self.send_timeout_ms.or(base.link.send_timeout_ms),
            scope: self.scope.unwrap_or(base.link.scope),
            deadline_ms: self.deadline_ms.unwrap_or(base.link.deadline_ms),
            resequence: resequence.or(base.link.resequence),
            buffer: self.buffer.unwrap_or(base.link.buffer),
            wait: self.wait.unwrap_or(base.link.wait),
            huge_pages: self.huge_pages.unwrap_or(base.link.huge_pages),
            locked: self.locked.unwrap_or(base.link.locked),
            group: own_group.or(base.link.group),
            any_build: false,
            transport_options: own_tables.over(base.link.transport_options),
        };
        let transport = self.transport.as_deref().map_or(&*base.transport, transport::of_topic);
        // Tables of transports in `[default]` are for the topics that use the transport.
        let unused = own_tables.tables().find(|table| *table != transport && topic.is_some());
        if let Some(table) = unused {
            return Err(at(format!(
                "`{table}` is a table for that transport, but the topic's is `{transport}`; remove it, or write \
                 transport = \"{table}\""
            )));
        }
        link.check().map_err(at)?;
        transport::check(transport, &link).map_err(|e| at(e.to_string()))?;
        let dispatch = self.dispatch.unwrap_or(base.dispatch);
        let sampling = self.sampling.unwrap_or(base.sampling);
        let refusal_is_error = self.refusal_is_error.unwrap_or(base.refusal_is_error);
        let allowed = |names: &Vec<String>| names.iter().map(|name| TypeName::without_layout(name)).collect();
        let own_types: Option<Result<Vec<TypeName>, String>> =
            self.types_without_layout.as_ref().map(allowed);
        let own_types = own_types.transpose();
        let own_types = own_types.map_err(|problem| at(format!("types-without-layout: {problem}")))?;
        let types_without_layout = own_types.unwrap_or_else(|| base.types_without_layout.clone());
        let transport = transport.into();
        Ok(TopicOptions { transport, link, dispatch, sampling, refusal_is_error, types_without_layout })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_topic_has_a_name() {
        for topic in ["", "a\nb", &"x".repeat(TOPIC_MAX + 1)] {
            let error = check_topic(topic).unwrap_err();
            assert!(matches!(error, Error::Port { .. }) && error.to_string().contains("1 to 255"), "{error}");
        }
        for topic in ["a", "two senders", "Antenne öst/1", &"x".repeat(TOPIC_MAX)] {
            check_topic(topic).unwrap();
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, says) in [
            ("[topic.a]\ntransprot = 'shm'", "transprot"),
            ("[topic.a]\ntransport = 'carrier-pigeon'", "carrier-pigeon"),
            ("[topic.a]\ndepth = 0", "depth"),
            (
                "[topic.a]\nhigh-watermark = 0",
                "topic `a`: high-watermark is 0; it must be from 1 to the depth",
            ),
            (
                "[topic.a]\nhigh-watermark = 65",
                "high-watermark is 65; it must be from 1 to the depth, which is 64",
            ),
            ("[topic.a]\nlow-watermark = 64", "low-watermark is 64; it must be less than the high watermark"),
            ("[topic.a]\nhigh-watermark = 9\nlow-watermark = 9", "(or the depth), which is 9"),
            ("[topic.a]\nlow-watermark = -1", "low-watermark"),
            ("[topic.a]\nflow = 'backwards'", "backwards"),
            ("[topic.a]\nsend-timeout-ms = 0", "send-timeout-ms is 0; it must be from 1 to 3600000"),
            ("[topic.a]\nbuffer = 5000", "buffer"),
            ("[topic.a]\nscope = 'sometimes'", "sometimes"),
            ("[topic.a]\ndeadline-ms = 0", "deadline-ms"),
            ("[topic.a]\noverflow = 'explode'", "explode"),
            ("[topic.a]\nwait = 'impatiently'", "impatiently"),
            ("[topic.a]\ndispatch = 'pool(0)'", "a pool of 0 threads; it must have from 1 to 256"),
            (
                "[topic.a]\ndispatch = 'threads'",
                "`threads` is not a dispatch; use one of queue, direct, pool(N)",
            ),
            (
                "[topic.a]\nresequence = { window = 0, skip-after-ms = 1 }",
                "window is 0; it must be from 1 to 65536",
            ),
            ("[topic.a]\nresequence = { window = 65537, skip-after-ms = 1 }", "window is 65537"),
            ("[topic.a]\nresequence = { window = 1, skip-after-ms = 3600001 }", "3600s is the most"),
            ("[topic.a]\nresequence = { window = 1 }", "skip-after-ms"),
            ("[topic.a]\nresequence = { window = 1, skip-after-ms = 1, order = 2 }", "order"),
            ("[topic.a]\nresequence = true", "resequence"),
            ("[topic.a]\nsampling = 'some'", "some"),
            ("[topic.a]\nlocked = 1", "boolean"),
            ("[topic.a]\nrefusal-is-error = 'yes'", "boolean"),
            ("[topic.a]\ntypes-without-layout = 'det'", "types-without-layout"),
            (
                "[topic.a]\ntypes-without-layout = ['Det']",
                "types-without-layout: `Det` is not a valid payload type name",
            ),
            ("[default]\ntypes-without-layout = ['f32']", "`f32` has a layout; leave it out"),
            ("[topic.a]\ntypes-without-layout = ['message/a']", "`message/a` is not a type of samples"),
            ("[domain]\ngroup = 'no-such-group'", "no-such-group"),
            ("[domain]\ngruop = 'x'", "gruop"),
            ("[topic.a]\ngroup = 'no-such-group'", "no-such-group"),
            (
                "[topic.a]\ntransport = 'uds'\nhuge-pages = true",
                "huge-pages (it has no ring of memory); use inproc or shm",
            ),
            ("[topic.a.udp]\nttl = 3", "`udp` is a table for that transport, but the topic's is `shm`"),
            ("[topic.a]\ntransport = 'udp'\n[topic.a.udp]\ntll = 3", "tll"),
            (
                "[topic.a]\ntransport = 'udp'\n[topic.a.udp]\nbind = '0.0.0.0'",
                "bind is 0.0.0.0, which means all",
            ),
            ("[topic.a]\ntransport = 'tcp'\n[topic.a.tcp]\nbind = '192.0.2.1'", "write insecure = true"),
            ("[topic.a]\ntransport = 'udp'\n[topic.a.udp]\nbind = 'here'", "invalid IP address"),
            (
                "[topic.a]\ntransport = 'udp'\nscope = 'server'\n[topic.a.udp]\nrepair = 'never'",
                "scope server with repair",
            ),
            (
                "[default]\nflow = 'credit'\ntransport = 'udp'\n[default.udp]\nrepair = 'never'",
                "flow credit with repair",
            ),
            (
                "[domain]\ngroup = 'root'\n[topic.a]\ntransport = 'udp'\n[topic.a.udp]\nbind = '127.0.0.1'",
                "group with bind 127.0.0.1",
            ),
            ("[topic.a]\ntransport = 'tcp'\nlocked = true", "transport tcp cannot keep locked"),
        ] {
            let error = Topics::parse(text).unwrap_err().to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn all_mistakes_are_in_one_error() {
        let error = |text: &str| Topics::parse(text).unwrap_err().to_string();
        let text = "[default]\ndepht = 4\n[topic.a]\noverflow = 'explode'\nlow-watermark = 9\n\
                    wait = 'impatiently' # too soon\n[topic.b]\ntransport = 'pigeon'";
        let all = error(text);
        assert!(all.starts_with("3 mistakes:\n"), "{all}");
        for words in ["line 2, column 1", "depht", "line 4, column 12", "explode", "line 6, column 8"] {
            assert!(all.contains(words), "`{words}` is not in {all}");
        }
        // Options that belong together are checked once all keys can be read.
        assert!(!all.contains("pigeon"), "{all}");
        let all = error("[topic.a]\ntransport = 'pigeon'\n[topic.b]\n[topic.c]\nlow-watermark = 64");
        assert!(all.starts_with("2 mistakes:\ntopic `a`: ") && all.contains("\ntopic `c`: "), "{all}");
        // A single mistake is not counted. A wrong head, or text that is not TOML, ends the list.
        assert!(error("[topic.a]\ndepth = 0").starts_with("topic `a`: "));
        let all = error("[topic.a]\ndepht = 1\n[topik.b]\ndepth = 1");
        assert!(all.starts_with("2 mistakes:") && all.contains("depht") && all.contains("topik"), "{all}");
        let all = error("[topic.a]\ndepht = [\n1,\n2]\n[topic.b]\nwait = 'x'");
        assert!(all.starts_with("2 mistakes:") && all.contains("depht") && all.contains("line 3"), "{all}");
        assert_eq!(error("[topic.a").matches("TOML parse error").count(), 1);
    }

    proptest! {
        #[test]
        fn arbitrary_text_ends_and_never_panics(text in "[\\[\\]a-d.='\n0-9]{0,60}|(\\[topic\\.[a-c]\\]\n|depht? = [0-9a]\n){0,9}") {
            let _ = Topics::parse(&text);
        }
    }

    #[test]
    fn auto_is_the_transport_between_processes() {
        let text = "[default]\ntransport = 'uds'\n[topic.a]\ntransport = 'auto'\nlocked = true\n[topic.b]";
        let topics = Topics::parse(text).unwrap();
        assert_eq!(["a", "b"].map(|topic| &*topics.of(topic).transport), ["shm", "uds"]);
    }

    #[test]
    fn a_topic_has_the_tables_of_the_default_unless_it_has_its_own() {
        let text = "[default.udp]\nttl = 3\nreorder-ms = 5\n[topic.a]\ntransport = 'udp'\n\
                    [topic.b]\ntransport = 'udp'\n[topic.b.udp]\nttl = 4";
        let topics = Topics::parse(text).unwrap();
        let udp = |topic| topics.of(topic).link.transport_options.udp.unwrap();
        assert_eq!((udp("a").ttl, udp("a").reorder_ms), (Some(3), Some(5)));
        assert_eq!((udp("b").ttl, udp("b").reorder_ms), (Some(4), None));
        assert_eq!(udp("other"), udp("a"));
    }

    #[test]
    fn types_without_a_layout_are_allowed_by_name() {
        let text = "[default]\ntypes-without-layout = ['det']\n[topic.a]\ndepth = 4\n[topic.b]\ntypes-without-layout = []";
        let topics = Topics::parse(text).unwrap();
        let det = TypeName::new("det").unwrap();
        let allowed = ["a", "b", "c"].map(|topic| topics.of(topic).link_of(&det).any_build);
        assert_eq!(allowed, [true, false, true]);
        assert!(!topics.of("a").allows(&TypeName::new("track").unwrap()));
        assert!(!topics.of("a").allows(&TypeName::parse("det{a:u32}").unwrap()));
    }

    #[test]
    fn the_problems_of_all_topics_are_found() {
        let text = "[topic.a]\ntransport = 'pigeon'\n[topic.b]\n[topic.c]\nlow-watermark = 64";
        let problems = Topics::parse_all(text).unwrap_err();
        let paths: Vec<&[String]> = problems.iter().map(|problem| &problem.path[..]).collect();
        assert_eq!(paths, [["topic", "a"], ["topic", "c"]]);
        for (text, path) in [("[domain]\ngroup = 'none such'", "domain"), ("[default]\ndepth = 0", "default")]
        {
            assert_eq!(Topics::parse_all(text).unwrap_err()[0].path, [path]);
        }
        assert!(Topics::parse_all("[topic").unwrap_err()[0].path.is_empty());
    }
}
