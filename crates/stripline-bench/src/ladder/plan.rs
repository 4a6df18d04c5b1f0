//! The groups of a ladder. The cases of a group take turns in the same processes.

use super::Settings;
use super::case::{Case, Group, Measure, Subject, Wait};
use super::endpoints;
use super::ratios;

/// The sizes at which a quick run measures more than links in memory. The ratios use the same
/// sizes.
const QUICK_SIZES: [usize; 2] = [64, 1024];

/// The largest packets that are sent many at a time. For larger packets, the number of bytes is the
/// limit.
const MANY_SIZE_MAX: usize = 1024;

/// The bare rings. A link in memory is compared with the better one.
pub(super) const MINIMAL_RINGS: [Subject; 2] = [Subject::MinimalRing, Subject::DescriptorRing];

/// The sizes for the ratios of message queues and datagrams. The largest size takes several
/// messages.
pub(super) const MESSAGE_RATIO_SIZES: [usize; 3] = [64, 1024, 32_768];

/// The transports for outstanding calls, and the way in which both sides wait.
pub(super) const OUTSTANDING: [(&str, Wait); 2] = [("shm", Wait::Spin), ("uds", Wait::Block)];
pub(super) const OUTSTANDING_COUNTS: [u32; 4] = [1, 10, 100, 1000];

/// Returns the groups in order. Compared cases are in the same group, with a repetition of each
/// reference.
pub(super) fn groups(settings: &Settings) -> Vec<Group> {
    let mut groups = Vec::new();
    for size in settings.sizes() {
        let is_noise_due = groups.is_empty();
        groups.push(Group { cases: memory(settings, size, is_noise_due), threads: false });
        if settings.quick && settings.sizes.is_empty() && !QUICK_SIZES.contains(&size) {
            continue;
        }
        if settings.has("inproc") {
            groups.push(Group { cases: inproc(size), threads: true });
        }
        let asleep = asleep(settings, size);
        if asleep.len() > 1 {
            groups.push(Group { cases: asleep, threads: false });
        }
        for transport in ["uds", "tcp"].into_iter().filter(|transport| settings.has(transport)) {
            groups.push(Group { cases: sockets(settings, transport, size), threads: false });
            groups.push(Group { cases: queued(transport, size), threads: false });
        }
    }
    for size in message_sizes(settings) {
        for transport in message_transports().filter(|transport| settings.has(transport)) {
            if transport == "udp" && size > endpoints::datagram::SIZE_MAX {
                continue;
            }
            groups.push(Group { cases: messages(transport, size), threads: false });
            if let Some(callback) = in_callback(transport) {
                groups.push(Group { cases: handled(transport, callback, size), threads: false });
            }
        }
    }
    for (transport, wait) in OUTSTANDING.into_iter().filter(|(transport, _)| settings.has(transport)) {
        let counts = OUTSTANDING_COUNTS.into_iter();
        let cases = counts.map(|readers| outstanding(transport, wait, readers)).collect();
        groups.push(Group { cases, threads: false });
    }
    if settings.has("shm") {
        let readers: &[u32] = if settings.quick { &[1, 10, 200] } else { &[1, 10, 50, 100, 200] };
        let cases = readers.iter().map(|readers| publish(*readers)).collect();
        groups.push(Group { cases, threads: false });
        for components in if settings.quick { &[2, 10][..] } else { &[2, 5, 10] } {
            let cases = [Wait::Block, Wait::Adaptive].map(|wait| pipeline(*components, wait)).into();
            groups.push(Group { cases, threads: false });
        }
    }
    groups.iter_mut().for_each(repeat_references);
    groups
}

/// Adds a repetition of each reference, right after the case that is compared with it.
fn repeat_references(group: &mut Group) {
    for (over, under) in ratios::pairs() {
        let again = Case { again: true, ..under.clone() };
        if let Some(at) = group.cases.iter().position(|case| *case == over)
            && group.cases.contains(&under)
            && !group.cases.contains(&again)
        {
            group.cases.insert(at + 1, again);
        }
    }
}

/// Returns the limit for every spinning side. In each group of two processes, this case also
/// measures the distance of the processors.
pub(super) fn atomics() -> Case {
    Case::new(Measure::Latency, Subject::Atomics, "memory", Wait::Spin, 0)
}

/// Returns the limit for every sleeping side.
pub(super) fn futex() -> Case {
    wake(Subject::Futex, "memory", 0)
}

/// Returns the loop without a peer.
pub(super) fn noise() -> Case {
    Case::new(Measure::Latency, Subject::Noise, "none", Wait::Spin, 0)
}

/// Returns round trips of packets, or of calls.
pub(super) fn latency(subject: Subject, transport: &str, wait: Wait, size: usize) -> Case {
    Case::new(Measure::Latency, subject, transport, wait, size)
}

/// Returns packets over memory to a sleeping receiver.
pub(super) fn wake(subject: Subject, transport: &str, size: usize) -> Case {
    Case::new(Measure::Wake, subject, transport, Wait::Block, size)
}

/// Returns a stream of packets.
pub(super) fn stream(subject: Subject, transport: &str, wait: Wait, size: usize) -> Case {
    Case::new(Measure::Throughput, subject, transport, wait, size)
}

pub(super) fn outstanding(transport: &str, wait: Wait, readers: u32) -> Case {
    let bytes = endpoints::calls::BYTES;
    Case { readers, ..Case::new(Measure::Outstanding, Subject::Calls, transport, wait, bytes) }
}

pub(super) fn publish(readers: u32) -> Case {
    Case { readers, ..Case::new(Measure::Publish, Subject::Stripline, "shm", Wait::Spin, 64) }
}

pub(super) fn pipeline(components: u32, wait: Wait) -> Case {
    Case { components, ..Case::new(Measure::Pipeline, Subject::Stripline, "shm", wait, 1024) }
}

/// Returns a case without statistics.
pub(super) fn without_statistics(case: &Case) -> Case {
    Case { statistics: false, ..case.clone() }
}

/// Returns the bare socket or queue for comparison with a transport of Stripline.
pub(super) fn bare(transport: &str) -> Subject {
    match transport {
        "tcp" => Subject::TcpSocket,
        "mqueue" => Subject::PosixQueue,
        "udp" => Subject::UdpSocket,
        "zeromq" => Subject::Zeromq,
        "iceoryx2" => Subject::Iceoryx2,
        "zenoh" => Subject::Zenoh,
        "dds" => Subject::Dds,
        "corba" => Subject::Omniorb,
        _ => Subject::UnixSocket,
    }
}

/// Returns the subject for comparison with `direct` handlers over a transport, if the middleware of
/// the transport calls back.
pub(super) fn in_callback(transport: &str) -> Option<Subject> {
    match transport {
        "zenoh" => Some(Subject::ZenohCallback),
        "corba" => Some(Subject::OmniorbServant),
        _ => None,
    }
}

/// Returns the built-in transports of messages.
pub(super) fn message_transports() -> impl Iterator<Item = &'static str> {
    let all = [
        ("mqueue", true),
        ("zeromq", cfg!(feature = "zeromq")),
        ("iceoryx2", cfg!(feature = "iceoryx2")),
        ("zenoh", cfg!(feature = "zenoh")),
        ("dds", cfg!(feature = "dds")),
        ("corba", cfg!(feature = "corba")),
        ("udp", true),
    ];
    all.into_iter().filter_map(|(name, is_built)| is_built.then_some(name))
}

/// Returns how the sides of a transport wait when they are compared with the bare subject.
pub(super) fn wait_beside(transport: &str) -> Wait {
    // Plain iceoryx2 cannot wait for a message.
    if transport == "iceoryx2" { Wait::Spin } else { Wait::Block }
}

/// Returns the cases over memory with spinning sides.
fn memory(settings: &Settings, size: usize, is_noise_due: bool) -> Vec<Case> {
    let shm = settings.has("shm");
    let mut cases = vec![atomics()];
    for new in [latency, stream] {
        cases.extend(MINIMAL_RINGS.map(|ring| new(ring, "shm", Wait::Spin, size)));
        if shm {
            cases.push(new(Subject::Stripline, "shm", Wait::Spin, size));
            cases.push(new(Subject::Ring, "shm", Wait::Spin, size));
        }
        if cfg!(feature = "peers") {
            cases.push(new(Subject::Iceoryx2, "shm", Wait::Spin, size));
        }
    }
    if shm && size <= MANY_SIZE_MAX {
        cases.push(stream(Subject::Many, "shm", Wait::Spin, size));
    }
    for new in [stream, latency] {
        cases.push(new(Subject::Memcpy, "memory", Wait::Spin, size));
    }
    cases.extend(is_noise_due.then(noise));
    let one_way = latency(Subject::Stripline, "shm", Wait::Spin, size);
    if size == endpoints::calls::BYTES
        && let Some(place) = cases.iter().position(|case| *case == one_way)
    {
        cases.insert(place + 1, latency(Subject::Calls, "shm", Wait::Spin, size));
    }
    for (at, new) in [(64, latency as fn(_, &_, _, _) -> _), (32, stream)] {
        let with = new(Subject::Stripline, "shm", Wait::Spin, size);
        if size == at
            && let Some(place) = cases.iter().position(|case| *case == with)
        {
            cases.insert(place, without_statistics(&with));
        }
    }
    cases
}

fn inproc(size: usize) -> Vec<Case> {
    let mut cases = vec![atomics(), latency(Subject::Stripline, "inproc", Wait::Spin, size)];
    cases.push(wake(Subject::Stripline, "inproc", size));
    if size == endpoints::calls::BYTES {
        cases.push(latency(Subject::Calls, "inproc", Wait::Spin, size));
    }
    cases.push(stream(Subject::Stripline, "inproc", Wait::Spin, size));
    cases
}

/// Returns the cases over memory with sleeping sides.
fn asleep(settings: &Settings, size: usize) -> Vec<Case> {
    let mut cases = vec![atomics()];
    if size == 64 {
        cases.push(futex());
    }
    if settings.has("shm") {
        cases.push(wake(Subject::Stripline, "shm", size));
    }
    cases
}

fn sockets(settings: &Settings, transport: &str, size: usize) -> Vec<Case> {
    let duplex = if transport == "tcp" { Subject::TcpDuplex } else { Subject::UnixDuplex };
    let mut cases = vec![atomics()];
    let is_quick = settings.quick && settings.sizes.is_empty();
    for wait in [Wait::Spin, Wait::Block] {
        if wait == Wait::Spin && is_quick {
            continue;
        }
        let case = |subject| latency(subject, transport, wait, size);
        cases.extend([case(bare(transport)), case(Subject::Stripline), case(duplex)]);
        if wait == Wait::Block && size == endpoints::calls::BYTES {
            cases.push(case(Subject::Calls));
        }
    }
    // Streams sleep, because a polling thread would take processor time from the thread that
    // carries the packets.
    let case = |subject| stream(subject, transport, Wait::Block, size);
    cases.extend([case(bare(transport)), case(Subject::Stripline)]);
    cases
}

/// Returns the cases in which a separate thread carries the packets.
fn queued(transport: &str, size: usize) -> Vec<Case> {
    let mut cases = vec![atomics(), stream(Subject::Queued, transport, Wait::Block, size)];
    if cfg!(feature = "peers") && transport == "uds" {
        cases.extend([stream, latency].map(|new| new(Subject::Zeromq, transport, Wait::Block, size)));
    }
    cases
}

/// Returns the sizes at which message queues and datagrams are measured.
fn message_sizes(settings: &Settings) -> Vec<usize> {
    match (settings.sizes.is_empty(), settings.quick) {
        (false, _) => settings.sizes(),
        (true, true) => MESSAGE_RATIO_SIZES.into(),
        (true, false) => vec![8, 64, 1024, 8192, 32_768],
    }
}

fn messages(transport: &str, size: usize) -> Vec<Case> {
    let wait = wait_beside(transport);
    beside(transport, [bare(transport), Subject::Stripline], wait, size)
}

/// Returns the cases with handlers that work where packets are received.
fn handled(transport: &str, callback: Subject, size: usize) -> Vec<Case> {
    beside(transport, [callback, Subject::Direct], Wait::Block, size)
}

/// Returns the cases for the times and the rates of two subjects.
fn beside(transport: &str, subjects: [Subject; 2], wait: Wait, size: usize) -> Vec<Case> {
    let cases = [latency, stream]
        .into_iter()
        .flat_map(|new| subjects.into_iter().map(move |subject| new(subject, transport, wait, size)));
    [atomics()].into_iter().chain(cases).collect()
}

#[cfg(test)]
mod tests {
    use super::super::case::Kind;
    use super::*;

    #[test]
    fn each_case_stands_once_and_each_reference_has_a_repetition() {
        for quick in [false, true] {
            let groups = groups(&Settings { quick, ..Settings::default() });
            let mut cases: Vec<&Case> =
                groups.iter().flat_map(|group| &group.cases).filter(|case| **case != atomics()).collect();
            let count = cases.len();
            cases.sort();
            cases.dedup();
            assert_eq!(cases.len(), count);
            for (over, under) in ratios::pairs() {
                if [&over, &under].iter().any(|case| case.subject.kind() == Kind::Peer)
                    && cfg!(not(feature = "peers"))
                {
                    continue;
                }
                let group = groups.iter().find(|group| group.cases.contains(&over)).unwrap();
                let again = Case { again: true, ..under.clone() };
                assert!(group.cases.contains(&under) && group.cases.contains(&again), "{over}; {under}");
            }
        }
    }

    #[test]
    fn a_repetition_uses_the_sides_of_its_original() {
        for group in groups(&Settings::default()) {
            for (index, case) in group.cases.iter().enumerate() {
                let original = group.original(index);
                assert_eq!(Case { again: false, ..case.clone() }, group.cases[original]);
                assert_eq!(original == index, !case.again);
            }
        }
    }

    #[test]
    fn what_is_left_out_is_left_out() {
        let settings = Settings { sizes: vec![64], transports: vec!["uds".into()], ..Settings::default() };
        let groups = groups(&settings);
        let mut cases = groups.iter().flat_map(|group| &group.cases);
        assert!(cases.clone().all(|case| !case.is_ours() || case.transport == "uds"));
        assert!(cases.all(|case| [0, 64].contains(&case.size)));
    }
}
