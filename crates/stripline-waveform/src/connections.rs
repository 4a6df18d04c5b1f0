//! The check of each connection (ends, transport, rules), and the check that every mandatory port
//! is connected.

use std::collections::{BTreeMap, BTreeSet};

use stripline::Error;
use stripline::component::{ComponentSpec, Direction, PortSpec, PortTypes};
use stripline::terms::{Flow, LinkOptions, Overflow, Scope, TransportOptions};
use stripline::transport::{self, AUTO};

use super::Placement;
use super::catalog::Catalog;
use super::components::{CheckedComponent, one_program};
use super::diagnostics::{At, Code, Diagnostic, Diagnostics, Place};
use super::file::ConnectionDraft;
use super::options_check;
use super::overrides::Options;
use super::program_command::ProgramCommand;
use super::resequence_check;
use super::text::{BUILD_PAGES, count, did_you_mean, listed, quoted, suggestion};
use super::transport_choice::{ChosenBy, FIRST, Requirements, SAME_PROCESS, TransportChoice, split_rule};

/// A port of a component. Both are indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ConnectionEnd {
    pub component: usize,
    pub port: usize,
}

/// A connection that has passed through the checks of connections. An end is `None` if the port
/// could not be determined, which has been reported.
pub(super) struct ResolvedConnection {
    pub draft: ConnectionDraft,
    pub from: Option<ConnectionEnd>,
    pub to: Option<ConnectionEnd>,
    pub transport: String,
    pub choice: TransportChoice,
}

/// Checks every connection.
pub(super) fn check(
    drafts: Vec<ConnectionDraft>,
    components: &[CheckedComponent],
    options: &Options,
    catalog: &Catalog,
    found: &mut Diagnostics,
) -> Vec<ResolvedConnection> {
    let mut checker = ConnectionChecker {
        names: components.iter().enumerate().map(|(n, c)| (c.name.value.as_str(), n)).collect(),
        components,
        options,
        catalog,
        found,
        used: BTreeSet::new(),
        excused: BTreeSet::new(),
        processes: BTreeSet::new(),
        split_ends: BTreeSet::new(),
        lacking: BTreeSet::new(),
    };
    options.transport.iter().for_each(|option| checker.check_transport(option));
    let mut links: Vec<ResolvedConnection> = drafts.into_iter().map(|draft| checker.resolve(draft)).collect();
    checker.repeated(&links);
    if let Some(option) = options.transport.as_ref().filter(|_| !checker.processes.is_empty()) {
        // Report once for all connections.
        let processes = std::mem::take(&mut checker.processes);
        let ends = std::mem::take(&mut checker.split_ends);
        checker.cannot_join(&option.place, processes, &ends);
    }
    if let Some(option) = options.transport.as_ref().filter(|_| !checker.lacking.is_empty()) {
        let lacking = std::mem::take(&mut checker.lacking);
        checker.lacks(option, lacking);
    }
    checker.unconnected();
    resequence_check::check(&links, components, found);
    one_sender(&links, found);
    options_check::check(&links, found);
    share_buffers(&mut links);
    links
}

/// Gives the largest buffer that any receiver requires to all receivers of an output on one
/// transport, because they share a ring.
fn share_buffers(links: &mut [ResolvedConnection]) {
    let mut largest: BTreeMap<(ConnectionEnd, String), u32> = BTreeMap::new();
    for link in links.iter().filter(|link| link.draft.places.contains_key("buffer")) {
        if let Some(from) = link.from {
            let buffer = largest.entry((from, link.transport.clone())).or_default();
            *buffer = link.draft.options.buffer.max(*buffer);
        }
    }
    for link in links {
        if let Some(from) = link.from
            && let Some(buffer) = largest.get(&(from, link.transport.clone()))
        {
            link.draft.options.buffer = *buffer;
        }
    }
}

/// Reports connections of one output over one transport that differ in the sender's options. The
/// sending side exists once for all of them.
fn one_sender(links: &[ResolvedConnection], found: &mut Diagnostics) {
    let mut first: BTreeMap<(ConnectionEnd, &str), &ResolvedConnection> = BTreeMap::new();
    for link in links {
        let Some(from) = link.from else { continue };
        let name = link.transport.as_str();
        let before = *first.entry((from, name)).or_insert(link);
        let sender_options = |link: &ResolvedConnection| {
            let tables = link.draft.options.transport_options.of_sender();
            let TransportOptions { tcp, udp, zenoh, corba } = tables;
            let none = TransportOptions::default();
            match name {
                "tcp" => TransportOptions { tcp: Some(tcp.unwrap_or_default()), ..none },
                "udp" => TransportOptions { udp: Some(udp.unwrap_or_default()), ..none },
                "zenoh" => TransportOptions { zenoh: Some(zenoh.unwrap_or_default()), ..none },
                "corba" => TransportOptions { corba: Some(corba.unwrap_or_default()), ..none },
                _ => none,
            }
        };
        if sender_options(before) != sender_options(link) {
            let from = link.draft.from.as_ref().map_or("this output", |from| &from.value);
            let message =
                format!("{} has one sending side over `{name}` for all of its receivers", quoted(from));
            let error = Diagnostic::error(Code::BadValue, link.draft.place(name), message)
                .label("other options here")
                .also(before.draft.place(name), "the options of the first")
                .help(format!(
                    "write the same [connection.{name}] in both; only `repair`, `reorder-ms` and `buffer` may differ"
                ));
            found.push(error);
        }
    }
}

/// The port that the text of an end names. A missing port has been reported.
#[derive(Clone, Copy, Default)]
struct NamedPort {
    end: Option<ConnectionEnd>,
    /// The text names a port of the other direction, or a component that has only such ports.
    is_backwards: bool,
}

struct ConnectionChecker<'c> {
    components: &'c [CheckedComponent<'c>],
    names: BTreeMap<&'c str, usize>,
    options: &'c Options,
    catalog: &'c Catalog<'c>,
    found: &'c mut Diagnostics,
    /// Ports that a connection names, correctly or not.
    used: BTreeSet<ConnectionEnd>,
    /// Components with a misspelt port, and whether the port is an output. Their unconnected
    /// ports cannot be determined. `None` stands for an unreadable end, which might name any port.
    excused: BTreeSet<(Option<usize>, bool)>,
    /// Components that the transport of the command line cannot join, because each runs in its own
    /// process.
    processes: BTreeSet<usize>,
    /// The ends of the connections of these components.
    split_ends: BTreeSet<usize>,
    /// Components of executables that lack the transport of the command line.
    lacking: BTreeSet<usize>,
}

impl<'c> ConnectionChecker<'c> {
    fn resolve(&mut self, draft: ConnectionDraft) -> ResolvedConnection {
        let from = self.named(draft.from.as_ref(), Direction::Output);
        let to = self.named(draft.to.as_ref(), Direction::Input);
        match (&draft.from, &draft.to) {
            (Some(from_at), Some(to_at)) if from.is_backwards && to.is_backwards => {
                let (was_from, was_to) = (&from_at.value, &to_at.value);
                let message = "this connection is the wrong way round";
                let error = Diagnostic::error(Code::PortDirection, &from_at.place, message)
                    .label("an input, which cannot send")
                    .also(&to_at.place, "an output, which cannot receive")
                    .help(format!("write from = \"{was_to}\" and to = \"{was_from}\""));
                self.found.push(error);
            }
            (from_at, to_at) => {
                let ends = [(from_at, from, Direction::Output), (to_at, to, Direction::Input)];
                for (at, named, wanted) in ends {
                    if let Some(at) = at.as_ref().filter(|_| named.is_backwards) {
                        self.backwards(at, named.end, wanted);
                    }
                }
            }
        }
        let port = |named: NamedPort| named.end.filter(|_| !named.is_backwards);
        let ends = [from.end, to.end];
        self.used.extend(ends.iter().flatten());
        let (transport, choice) = self.transport(&draft, ends);
        if choice.by != ChosenBy::Auto {
            self.memory(&draft, &transport);
            self.promises(&draft, &transport);
        }
        self.tables(&draft);
        self.watermarks(&draft);
        let link = ResolvedConnection { from: port(from), to: port(to), transport, choice, draft };
        let options = link.draft.options;
        if let (Some(from), Some(to)) = (link.from, link.to)
            && from.component == to.component
            && (options.overflow == Overflow::Block || options.scope == Scope::Target)
        {
            let name = &self.components[from.component].name.value;
            let message = format!("`{name}` is connected to itself and would wait for itself");
            let remedy = if options.overflow == Overflow::Block {
                "write overflow = \"drop-oldest\" or \"drop-newest\", or put another component between"
            } else {
                "write scope = \"server\" or a weaker one, or put another component between"
            };
            self.found.error(Code::SelfLoop, link.draft.place("to"), message, remedy);
        }
        link
    }

    /// Finds the port that a text such as `demodulator.in` names.
    fn named(&mut self, at: Option<&At<String>>, wanted: Direction) -> NamedPort {
        let is_output = wanted == Direction::Output;
        let Some(at) = at else {
            self.excused.insert((None, is_output));
            return NamedPort::default();
        };
        let (name, port) = match at.value.split_once('.') {
            Some((name, port)) => (name, Some(port)),
            None => (at.value.as_str(), None),
        };
        let Some(&component) = self.names.get(name) else {
            let known = || self.names.keys().copied();
            let remedy = did_you_mean(name, known(), "the components are");
            if let Some(meant) = suggestion(name, known()) {
                self.excused.insert((Some(self.names[meant]), is_output));
            }
            let message = format!("there is no component {}", quoted(name));
            self.found.error(Code::UnknownComponent, &at.place, message, remedy);
            return NamedPort::default();
        };
        let Some(spec) = self.components[component].spec.as_deref() else { return NamedPort::default() };
        let direction = words(wanted);
        let candidates: Vec<usize> =
            (0..spec.ports.len()).filter(|&n| spec.ports[n].direction == wanted).collect();
        let names = || candidates.iter().map(|&n| spec.ports[n].name.as_str());
        if let Some(port) = port.and_then(|port| spec.ports.iter().position(|p| p.name == port)) {
            let is_backwards = spec.ports[port].direction != wanted;
            return NamedPort { end: Some(ConnectionEnd { component, port }), is_backwards };
        }
        let (code, message, remedy) = match (port, &candidates[..]) {
            (Some(port), _) => {
                let mut remedy = did_you_mean(port, names(), &format!("its {direction}s are"));
                if candidates.is_empty() {
                    remedy = format!("it has no {direction} at all");
                }
                (Code::UnknownPort, format!("`{name}` has no port {}", quoted(port)), remedy)
            }
            (None, &[port]) => {
                return NamedPort { end: Some(ConnectionEnd { component, port }), is_backwards: false };
            }
            (None, []) => return NamedPort { end: None, is_backwards: true },
            (None, _) => {
                let message = format!("`{name}` has more than one {direction}");
                let choices: Vec<String> = names().map(|port| format!("{name}.{port}")).collect();
                let remedy = format!("name one: {}", listed(choices.iter().map(String::as_str), "or"));
                (Code::WhichPort, message, remedy)
            }
        };
        self.excused.insert((Some(component), is_output));
        self.found.error(code, &at.place, message, remedy);
        NamedPort::default()
    }

    fn backwards(&mut self, at: &At<String>, end: Option<ConnectionEnd>, wanted: Direction) {
        let (key, is, does) = match wanted {
            Direction::Output => ("from", "input", "sends"),
            Direction::Input => ("to", "output", "receives"),
        };
        let name = at.value.split('.').next().unwrap_or_default();
        let wanted_word = words(wanted);
        let (message, remedy) = match end {
            None => {
                let message =
                    format!("`{name}` has no {wanted_word}, but `{key}` names the component that {does}");
                (message, "are `from` and `to` the wrong way round?".into())
            }
            Some(end) => {
                let ports = ports_of(self.components[end.component].spec.as_deref(), wanted);
                let remedy = match ports.is_empty() {
                    true => format!("`{name}` has no {wanted_word}"),
                    false => format!("its {wanted_word}s are {}", listed(ports, "and")),
                };
                let port = quoted(&at.value);
                (format!("{port} is an {is}, but `{key}` names the port that {does}"), remedy)
            }
        };
        self.found.error(Code::PortDirection, &at.place, message, remedy);
    }

    /// Returns the transport of a connection, and checks that the transport can join the two ends.
    fn transport(
        &mut self,
        draft: &ConnectionDraft,
        ends: [Option<ConnectionEnd>; 2],
    ) -> (String, TransportChoice) {
        let ends: Vec<usize> = ends.into_iter().flatten().map(|end| end.component).collect();
        let is_process = |n: &usize| self.components[*n].placement == Placement::Process;
        let mut processes: Vec<usize> = ends.iter().copied().filter(is_process).collect();
        processes.dedup();
        let shares_process = matches!(ends[..], [from, to]
            if self.components[from].shares_process(&self.components[to]));
        let is_one_process = shares_process || matches!(ends[..], [from, to] if from == to);
        draft.transport.iter().for_each(|named| self.check_transport(named));
        self.check_allowed(draft);
        let by_option = self.options.transport.as_ref().map(|at| (at, ChosenBy::Option));
        let named = by_option.or(draft.transport.as_ref().map(|at| (at, ChosenBy::File)));
        let named = named.filter(|(at, _)| at.value != AUTO);
        let names: Vec<&str> = processes.iter().map(|&n| self.components[n].name.value.as_str()).collect();
        let wanted = Requirements {
            ends: &ends.iter().map(|&n| &self.components[n]).collect::<Vec<_>>(),
            split: (!is_one_process).then(|| split_rule(&names)),
            options: &draft.options,
            named,
            allowed: &draft.allow,
        };
        let choice = wanted.choose(self.catalog.transports);
        if let Some((named, _)) = named {
            // An unresolved end has been reported and is not an error here.
            let is_split = ends.len() == 2 && !is_one_process;
            let processes = if processes.is_empty() { ends.clone() } else { processes };
            if named.value == SAME_PROCESS && is_split {
                match named.place.is_option() {
                    true => {
                        self.processes.extend(processes);
                        self.split_ends.extend(ends.iter().copied());
                    }
                    false => self.cannot_join(&named.place, processes, &ends.iter().copied().collect()),
                }
            }
            let has_not = |n: &usize| !self.components[*n].has_transport(&named.value);
            let lacking: Vec<usize> = ends.iter().copied().filter(has_not).collect();
            if self.catalog.transports.contains(&named.value.as_str()) && !lacking.is_empty() {
                match named.place.is_option() {
                    true => self.lacking.extend(lacking),
                    false => self.lacks(named, lacking),
                }
            }
            return (named.value.clone(), choice);
        }
        if let Some(taken) = choice.taken() {
            return (taken.into(), choice);
        }
        self.no_transport(draft, &choice);
        (AUTO.into(), choice)
    }

    /// Reports executables and Python modules that lack the named transport.
    fn lacks(&mut self, named: &At<String>, lacking: impl IntoIterator<Item = usize>) {
        let lacking: Vec<_> = lacking.into_iter().map(|n| &self.components[n]).collect();
        let names = listed(lacking.iter().map(|component| component.name.value.as_str()), "and");
        let mut parts = lacking.iter().map(|component| component.part_with_transports());
        let first = parts.next().unwrap_or_default();
        let part = if parts.all(|part| part == first) { first } else { "executable" };
        let message = format!("the {part} of {names} has no transport {}", quoted(&named.value));
        let transports = self.catalog.transports.iter().copied().filter(|name| *name != SAME_PROCESS);
        let common: Vec<&str> =
            transports.filter(|name| lacking.iter().all(|c| c.has_transport(name))).collect();
        let choose = match common.is_empty() {
            true => String::new(),
            false => format!("choose one that it has: {}; or ", listed(common, "or")),
        };
        let brought_in = transport::all().any(|known| known.name == named.value && known.library.is_some());
        let build = match brought_in {
            true => {
                format!("build it with the feature `stripline-middleware/{}` (docs/install.md)", named.value)
            }
            false => "build it with the version of this program".into(),
        };
        self.found.error(Code::TransportUnfit, &named.place, message, choose + &build);
    }

    /// Reports a connection for which `auto` finds no transport.
    fn no_transport(&mut self, draft: &ConnectionDraft, choice: &TransportChoice) {
        let considered = FIRST.len() + draft.allow.len();
        let rules = choice.candidates.iter().take(considered).map(|candidate| {
            let rule = candidate.struck_out.as_deref().unwrap_or_default();
            format!("{}: {rule}", candidate.transport)
        });
        let message =
            format!("`{AUTO}` finds no transport for this: {}", rules.collect::<Vec<_>>().join("; "));
        let transports = self.catalog.transports.iter().copied();
        let others: Vec<&str> = transports.filter(|name| !FIRST.contains(name)).collect();
        let remedy = format!("allow another by name, as allow = [\"tcp\"]: {}", listed(others, "or"));
        self.found.error(Code::TransportUnfit, draft.place("transport"), message, remedy);
    }

    /// Checks the transports in the `allow` of a connection.
    fn check_allowed(&mut self, draft: &ConnectionDraft) {
        if let Some(named) = draft.transport.as_ref().filter(|at| at.value != AUTO)
            && draft.places.contains_key("allow")
        {
            let message =
                format!("`allow` is for `{AUTO}`, but this connection names {}", quoted(&named.value));
            let remedy = "remove one of `transport` and `allow`";
            self.found.error(Code::BadValue, draft.place("allow"), message, remedy);
            return;
        }
        for at in &draft.allow {
            match at.value.as_str() {
                name if name == AUTO || FIRST.contains(&name) => {
                    let message = format!("`allow` names {}", quoted(name));
                    let remedy = format!("remove it: `{AUTO}` takes {} by itself", listed(FIRST, "or"));
                    self.found.error(Code::BadValue, &at.place, message, remedy);
                }
                _ => self.check_named(at, false),
            }
        }
    }

    /// Checks the name of a transport, or `auto`.
    fn check_transport(&mut self, named: &At<String>) {
        self.check_named(named, true);
    }

    fn check_named(&mut self, named: &At<String>, takes_auto: bool) {
        let transports = self.catalog.transports.iter().copied().chain(takes_auto.then_some(AUTO));
        if !transports.clone().any(|name| name == named.value) {
            let mut remedy = did_you_mean(&named.value, transports, "the transports are");
            let message = match transport::absent().iter().find(|transport| transport.name == named.value) {
                Some(absent) => {
                    remedy = format!("{BUILD_PAGES}; {remedy}");
                    format!("the transport {} is {}", quoted(&named.value), absent.remedy)
                }
                None => format!("unknown transport {}", quoted(&named.value)),
            };
            self.found.error(Code::UnknownTransport, &named.place, message, remedy);
        }
    }

    /// Reports components that `inproc` cannot join, because each runs in its own process. `ends`
    /// has all ends of the connections concerned.
    fn cannot_join(
        &mut self,
        inproc: &Place,
        processes: impl IntoIterator<Item = usize>,
        ends: &BTreeSet<usize>,
    ) {
        let processes: Vec<_> = processes.into_iter().map(|n| &self.components[n]).collect();
        let names = listed(processes.iter().map(|c| c.name.value.as_str()), "and");
        let by_option = inproc.is_option();
        let others = self.other_transports();
        let executables = || ends.iter().map(|&n| self.components[n].executable.as_ref());
        let is_python = |command: &&ProgramCommand| command.is_python();
        let command = executables().flatten().find(is_python).or_else(|| executables().flatten().next());
        let is_one_program = executables().all(|it| it == command);
        let sharing = command.filter(|_| !is_one_program).map(|command| {
            if executables().any(|it| it.is_none()) {
                format!("choose another transport, as stock types share no process with `exec`: {others}")
            } else {
                format!("{}; or choose another transport: {others}", one_program(command))
            }
        });
        if processes.iter().all(|component| component.placement == Placement::Thread) {
            let message = format!(
                "`{SAME_PROCESS}` joins components of one process, but {names} are threads of \
                                   different programs"
            );
            let remedy = sharing.unwrap_or_else(|| format!("choose another transport: {others}"));
            self.found.error(Code::TransportUnfit, inproc, message, remedy);
            return;
        }
        let verb = match (processes.len(), by_option) {
            (1, true) => "is a process",
            (_, true) => "are processes",
            (1, false) => "is a process of its own",
            (_, false) => "are processes of their own",
        };
        let message = format!("`{SAME_PROCESS}` joins components of one process, but {names} {verb}");
        let remedy = sharing.unwrap_or_else(|| {
            let first = match (self.options.placement.is_some(), by_option) {
                (true, true) => "use `--placement threads`".into(),
                (false, true) => "add `--placement threads`".into(),
                (true, false) => "leave out `--placement processes`".into(),
                (false, false) => format!("write placement = \"thread\" for {names}"),
            };
            format!("{first}, or choose another transport: {others}")
        });
        self.found.error(Code::TransportUnfit, inproc, message, remedy);
    }

    fn other_transports(&self) -> String {
        let others = self.catalog.transports.iter().copied().filter(|&name| name != SAME_PROCESS);
        listed(others, "or")
    }

    /// Checks the marks at which the sender blocks and resumes.
    fn watermarks(&mut self, draft: &ConnectionDraft) {
        let LinkOptions { depth, overflow, high_watermark: high, low_watermark: low, .. } = draft.options;
        if overflow != Overflow::Block {
            self.flow_of_a_dropping_receiver(draft);
            return;
        }
        let most = high.unwrap_or(depth);
        let (key, message, remedy) = if most > depth {
            let waiting = count(depth as usize, "packet");
            let message = format!("`high-watermark` is {most}, but only {waiting} may wait");
            ("high-watermark", message, "make it at most the connection's `depth`, or raise that")
        } else if let Some(low) = low.filter(|low| *low >= most) {
            let message = format!("`low-watermark` is {low}, but the sender is held up at {most} already");
            let remedy = "make it less than the high watermark (the `depth`, unless `high-watermark` is set)";
            ("low-watermark", message, remedy)
        } else {
            return;
        };
        self.found.error(Code::BadValue, draft.place(key), message, remedy);
    }

    /// Reports flow-control keys of a receiver that drops packets; such a receiver never blocks the
    /// sender.
    fn flow_of_a_dropping_receiver(&mut self, draft: &ConnectionDraft) {
        let LinkOptions { overflow, high_watermark, low_watermark, flow, .. } = draft.options;
        let keys = [
            ("high-watermark", high_watermark.is_some()),
            ("low-watermark", low_watermark.is_some()),
            ("flow", flow != Flow::Transport),
        ];
        for (key, _) in keys.into_iter().filter(|(_, is_set)| *is_set) {
            let message = format!("`{key}` holds the sender up, but overflow = \"{overflow}\" never does");
            let remedy = format!("remove `{key}`, or write overflow = \"block\"");
            self.found.error(Code::FlowUnfit, draft.place(key), message, remedy);
        }
    }

    /// Checks that the transport has a ring if the connection sets requirements on the memory of
    /// the ring.
    fn memory(&mut self, draft: &ConnectionDraft, transport: &str) {
        let LinkOptions { huge_pages, locked, .. } = draft.options;
        for (key, options) in [
            ("huge-pages", LinkOptions { huge_pages, ..LinkOptions::default() }),
            ("locked", LinkOptions { locked, ..LinkOptions::default() }),
        ] {
            // An unknown transport has been reported.
            if let Err(Error::Unsupported { transport, rule, alternatives }) =
                transport::check(transport, &options)
            {
                let message = format!("transport `{transport}` cannot keep {rule}");
                let remedy = format!("{alternatives}, or leave it out");
                self.found.error(Code::TransportUnfit, draft.place(key), message, remedy);
            }
        }
    }

    /// Checks that the transport can keep the promises of the connection, with the options of the
    /// connection.
    fn promises(&mut self, draft: &ConnectionDraft, transport: &str) {
        let LinkOptions { scope, flow, transport_options, .. } = draft.options;
        let options = LinkOptions { scope, flow, transport_options, ..LinkOptions::default() };
        if let Err(Error::Unsupported { transport, rule, alternatives }) =
            transport::check(transport, &options)
        {
            let message = format!("transport `{transport}` cannot keep {rule}");
            self.found.error(Code::TransportUnfit, draft.place(&transport), message, alternatives);
        }
    }

    /// Reports tables of transports that the connection does not use.
    fn tables(&mut self, draft: &ConnectionDraft) {
        let named = draft.transport.as_ref().map_or(AUTO, |at| &at.value);
        for table in draft.options.transport_options.tables() {
            let is_allowed = named == AUTO && draft.allow.iter().any(|at| at.value == table);
            if named == table || is_allowed {
                continue;
            }
            let message = format!("[connection.{table}] is for `{table}`, but this connection has `{named}`");
            let also = if named == AUTO { format!(" or allow = [\"{table}\"]") } else { String::new() };
            let remedy = format!("remove it, or write transport = \"{table}\"{also}");
            self.found.error(Code::TransportUnfit, draft.place(table), message, remedy);
        }
    }

    /// Reports repeated connections, and several writers on an input that allows one.
    fn repeated(&mut self, links: &[ResolvedConnection]) {
        let mut connections: BTreeMap<(ConnectionEnd, ConnectionEnd), &Place> = BTreeMap::new();
        let mut writers: BTreeMap<ConnectionEnd, &Place> = BTreeMap::new();
        for link in links {
            let (Some(from), Some(to)) = (link.from, link.to) else { continue };
            let Some((name, port)) = self.port(to) else { continue };
            let place = link.draft.place("from");
            if let Some(first) = connections.insert((from, to), place) {
                let error = Diagnostic::error(Code::SameConnection, place, "this connection already exists")
                    .label("again here")
                    .also(first, "first here")
                    .help("remove one of the two");
                connections.insert((from, to), first);
                self.found.push(error);
            } else if let Some(first) = writers.get(&to).filter(|_| !port.many_writers) {
                let message = format!("`{name}.{}` takes packets of one writer only", port.name);
                let error = Diagnostic::error(Code::TwoWriters, place, message)
                    .label("another writer")
                    .also(first, "the first writer")
                    .help("connect the other to an input of its own, or merge both with a `multiplexer`");
                self.found.push(error);
            } else {
                writers.insert(to, place);
            }
        }
    }

    fn unconnected(&mut self) {
        for (n, component) in self.components.iter().enumerate() {
            let ports = component.spec.iter().flat_map(|spec| &spec.ports).enumerate();
            for (index, port) in ports.filter(|(_, port)| port.mandatory) {
                let is_output = port.direction == Direction::Output;
                let is_excused = [None, Some(n)].iter().any(|n| self.excused.contains(&(*n, is_output)));
                if is_excused || self.used.contains(&ConnectionEnd { component: n, port: index }) {
                    continue;
                }
                let (name, port_name) = (&component.name.value, &port.name);
                let (this, other) = if is_output { ("from", "to") } else { ("to", "from") };
                let types = match &port.types {
                    PortTypes::OneOf(_) => format!("type {}", port.types),
                    PortTypes::Any => "any type".into(),
                    PortTypes::SameAs(other) => format!("the type of `{other}`"),
                    PortTypes::Property(name) => format!("the type in property `{name}`"),
                };
                let message = format!("{} `{name}.{port_name}` is not connected", words(port.direction));
                let remedy = format!(
                    "add a [[connection]] with {this} = \"{name}.{port_name}\" and {other} = \"…\" ({types})"
                );
                self.found.error(Code::Unconnected, &component.name.place, message, remedy);
            }
        }
    }

    /// Returns the name of a component and one of the ports.
    fn port(&self, end: ConnectionEnd) -> Option<(&'c str, &'c PortSpec)> {
        let component = &self.components[end.component];
        let port = &component.spec.as_deref()?.ports[end.port];
        Some((&component.name.value, port))
    }
}

fn words(direction: Direction) -> &'static str {
    match direction {
        Direction::Input => "input",
        Direction::Output => "output",
    }
}

fn ports_of(spec: Option<&ComponentSpec>, direction: Direction) -> Vec<&str> {
    let ports = spec.map_or(&[][..], |spec| &spec.ports);
    ports.iter().filter(|port| port.direction == direction).map(|port| port.name.as_str()).collect()
}
