//! The rungs of a ladder, and their order.

use super::Settings;
use super::case::{Case, Measure, Subject, Wait};
use super::endpoints;

/// Above this size, one packet in flight and many to a sleeping reader give the same figure. A
/// quick run leaves them out.
const QUICK_SLEEPING_MAX: usize = 1024;

/// The transports for outstanding calls, and the way in which both sides wait.
pub(super) const OUTSTANDING: [(&str, Wait); 2] = [("shm", Wait::Spin), ("uds", Wait::Block)];
pub(super) const OUTSTANDING_COUNTS: [u32; 4] = [1, 10, 100, 1000];

/// Returns the rungs in their order. Cases to be compared stand close together, and so run close in
/// time.
pub(super) fn cases(settings: &Settings) -> Vec<Case> {
    let mut cases = Vec::new();
    for size in settings.sizes() {
        latency(settings, size, &mut cases);
        throughput(settings, size, &mut cases);
    }
    for (transport, wait) in OUTSTANDING {
        if settings.has(transport) {
            for readers in OUTSTANDING_COUNTS {
                let case =
                    Case::new(Measure::Outstanding, Subject::Calls, transport, wait, endpoints::calls::BYTES);
                cases.push(Case { readers, ..case });
            }
        }
    }
    if settings.has("shm") {
        for readers in if settings.quick { &[1, 10, 200][..] } else { &[1, 10, 50, 100, 200] } {
            let case = Case::new(Measure::Publish, Subject::Stripline, "shm", Wait::Spin, 64);
            cases.push(Case { readers: *readers, ..case });
        }
        for components in if settings.quick { &[2, 10][..] } else { &[2, 5, 10] } {
            for wait in [Wait::Block, Wait::Adaptive] {
                let case = Case::new(Measure::Pipeline, Subject::Stripline, "shm", wait, 1024);
                cases.push(Case { components: *components, ..case });
            }
        }
    }
    cases
}

/// Returns the case that is compared with itself.
pub(super) fn null(settings: &Settings) -> Case {
    if settings.has("shm") && settings.sizes().contains(&64) {
        Case::new(Measure::Latency, Subject::Stripline, "shm", Wait::Spin, 64)
    } else {
        atomics()
    }
}

/// Returns the limit of every spinning side.
pub(super) fn atomics() -> Case {
    Case::new(Measure::Latency, Subject::Atomics, "memory", Wait::Spin, 0)
}

/// Returns the limit of every sleeping side.
pub(super) fn futex() -> Case {
    Case::new(Measure::Latency, Subject::Futex, "memory", Wait::Block, 0)
}

/// Returns the bare subject to compare with a transport of Stripline.
pub(super) fn bare(transport: &str) -> Option<Subject> {
    match transport {
        "shm" => Some(Subject::Ring),
        "uds" => Some(Subject::UnixSocket),
        "tcp" => Some(Subject::TcpSocket),
        _ => None,
    }
}

fn latency(settings: &Settings, size: usize, cases: &mut Vec<Case>) {
    let case = |subject, transport: &str, wait| Case::new(Measure::Latency, subject, transport, wait, size);
    // The comparison at 32 B is one of packets per second.
    if settings.quick && settings.sizes.is_empty() && size == 32 {
        return;
    }
    cases.push(case(Subject::Memcpy, "memory", Wait::None));
    for wait in [Wait::Spin, Wait::Block] {
        if wait == Wait::Block && settings.quick && size > QUICK_SLEEPING_MAX {
            continue;
        }
        for transport in settings.transports() {
            let socket = matches!(&*transport, "uds" | "tcp");
            if socket && wait == Wait::Spin && settings.quick && size != 1024 {
                continue;
            }
            if let Some(subject) = bare(&transport)
                && (wait == Wait::Spin || socket)
            {
                cases.push(case(subject, &transport, wait));
            }
            cases.push(case(Subject::Stripline, &transport, wait));
            if transport == "shm" {
                // The case to compare with follows at once, because the machine's state changes.
                cases.extend(beside(settings, size, wait));
            }
            if size == endpoints::calls::BYTES && (wait == Wait::Spin) != socket {
                cases.push(case(Subject::Calls, &transport, wait));
            }
            match &*transport {
                "uds" => cases.push(case(Subject::UnixDuplex, &transport, wait)),
                "tcp" => cases.push(case(Subject::TcpDuplex, &transport, wait)),
                _ => {}
            }
        }
        if size <= endpoints::queue::size_max() && !(settings.quick && wait == Wait::Spin) {
            cases.push(case(Subject::PosixQueue, "mqueue", wait));
        }
    }
    if cfg!(feature = "peers") {
        cases.push(case(Subject::Iceoryx2, "shm", Wait::Spin));
        cases.push(case(Subject::Zeromq, "uds", Wait::Block));
    }
    if !settings.has("shm") {
        cases.extend([Wait::Spin, Wait::Block].into_iter().flat_map(|wait| beside(settings, size, wait)));
    }
}

/// Returns the cases to compare with one way over shared memory.
fn beside(settings: &Settings, size: usize, wait: Wait) -> Vec<Case> {
    match wait {
        Wait::Spin if size == 64 && settings.has("shm") => {
            let shm = null(settings);
            let off = Case { statistics: false, ..shm.clone() };
            vec![off, atomics(), Case { again: true, ..shm }]
        }
        Wait::Spin if size == 64 => vec![atomics()],
        Wait::Block if size == 64 => vec![futex()],
        _ => Vec::new(),
    }
}

fn throughput(settings: &Settings, size: usize, cases: &mut Vec<Case>) {
    let case =
        |subject, transport: &str, wait| Case::new(Measure::Throughput, subject, transport, wait, size);
    cases.push(case(Subject::Memcpy, "memory", Wait::None));
    for transport in settings.transports() {
        // Socket cases sleep: a thread that polls takes processor time from the one that carries
        // the packets.
        let wait = if matches!(&*transport, "uds" | "tcp") { Wait::Block } else { Wait::Spin };
        if let Some(subject) = bare(&transport) {
            cases.push(case(subject, &transport, wait));
        }
        let stripline = case(Subject::Stripline, &transport, wait);
        cases.push(stripline.clone());
        if size == 32 && transport == "shm" {
            cases.push(Case { statistics: false, ..stripline });
        }
    }
    if size <= endpoints::queue::size_max() {
        cases.push(case(Subject::PosixQueue, "mqueue", Wait::Block));
    }
    if cfg!(feature = "peers") {
        cases.push(case(Subject::Iceoryx2, "shm", Wait::Spin));
        cases.push(case(Subject::Zeromq, "uds", Wait::Block));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_rung_stands_twice() {
        for quick in [false, true] {
            let cases = cases(&Settings { quick, ..Settings::default() });
            let mut sorted = cases.clone();
            sorted.sort();
            sorted.dedup();
            assert_eq!(cases.len(), sorted.len());
        }
    }

    #[test]
    fn what_is_left_out_is_left_out() {
        let settings = Settings { sizes: vec![64], transports: vec!["uds".into()], ..Settings::default() };
        let cases = cases(&settings);
        let ours = |case: &Case| matches!(case.subject, Subject::Stripline | Subject::Calls);
        assert!(cases.iter().all(|case| !ours(case) || case.transport == "uds"));
        assert!(cases.iter().all(|case| [0, 64].contains(&case.size)));
        assert_eq!(null(&settings), atomics());
    }
}
