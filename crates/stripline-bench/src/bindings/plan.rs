//! The comparisons and their aims.

use crate::figure::Aim;

/// The names of the figures of GNU Radio: rate, processor time, latency of bursts, and rate over
/// one process.
pub(super) const GNURADIO: [&str; 4] = [
    "gnuradio_rate_over_zeromq",
    "gnuradio_processor_time_over_zeromq",
    "gnuradio_burst_latency_over_zeromq",
    "gnuradio_rate_over_one_process",
];

/// The language of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    Rust,
    C,
    Cpp,
    Python,
}

/// A kind of link. The ends of the link are processes of one language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkEnds {
    pub language: Language,
    /// The name of the kind in the programs.
    pub kind: &'static str,
    /// The roles of the processes.
    pub roles: &'static [&'static str],
    /// The index of the process that measures the time.
    pub timed: usize,
}

/// Two subjects: the figure is the time of the first over the time of the second, which is the
/// reference.
#[derive(Clone, Debug)]
pub(super) struct SubjectPair {
    pub name: &'static str,
    pub over: LinkEnds,
    pub under: LinkEnds,
    /// The size of a packet in bytes.
    pub size: usize,
    pub aim: Aim,
    /// Whether each process is pinned to a different processor. For a library that has a thread for
    /// its sockets, the system chooses the processors, and so it does for the reference.
    pub is_pinned: bool,
}

const fn one_thread(language: Language, kind: &'static str) -> LinkEnds {
    LinkEnds { language, kind, roles: &["one-thread"], timed: 0 }
}

const fn round_trip(language: Language, kind: &'static str) -> LinkEnds {
    LinkEnds { language, kind, roles: &["ping", "pong"], timed: 0 }
}

/// Returns a stream. The receiver measures the time, from the first packet to the last.
const fn one_way(language: Language, kind: &'static str) -> LinkEnds {
    LinkEnds { language, kind, roles: &["sender", "receiver"], timed: 1 }
}

/// Returns the comparisons, in the order of the table. The time of A over the time of B is also the
/// rate of B over the rate of A.
pub(super) fn comparisons() -> Vec<SubjectPair> {
    use Language::{C, Cpp, Python, Rust};
    let new = |name, over, under, size, aim| SubjectPair { name, over, under, size, aim, is_pinned: true };
    let free = |comparison: SubjectPair| SubjectPair { is_pinned: false, ..comparison };
    let (most, least) = (Aim::at_most, Aim::at_least);
    let rust = one_thread(Rust, "plain");
    let (spins, waits) = (round_trip(Rust, "spin"), round_trip(Python, "block"));
    let (cpp, python) = (round_trip(Cpp, "spin"), |kind| round_trip(Python, kind));
    let (rust_stream, python_stream) = (one_way(Rust, "stream"), |kind| one_way(Python, kind));
    vec![
        new("c_64_over_rust", one_thread(C, "plain"), rust, 64, Aim::more_at_most(7.0)),
        new("c_64k_over_rust", one_thread(C, "plain"), rust, 65_536, most(1.01)),
        new("cpp_64_over_rust", cpp, spins, 64, most(1.05)),
        new("cpp_8k_over_rust", cpp, spins, 8192, most(1.02)),
        new("cpp_64k_over_rust", cpp, spins, 65_536, most(1.02)),
        new("rust_held_64_over_one", round_trip(Rust, "held"), spins, 64, most(1.05)),
        new("python_iceoryx2_64_over_ours", python("iceoryx2"), python("spin"), 64, least(3.0)),
        new("python_iceoryx2_64k_over_ours", python("iceoryx2"), python("spin"), 65_536, least(2.0)),
        free(new("python_pyzmq_64_over_ours", python("zmq"), waits, 64, least(3.0))),
        free(new("python_pyzmq_64k_over_ours", python("zmq"), waits, 65_536, least(2.0))),
        new("python_send_64k_rate_over_rust", rust_stream, python_stream("send"), 65_536, least(0.75)),
        new("python_loan_64k_rate_over_rust", rust_stream, python_stream("loan"), 65_536, least(0.7)),
        free(new(
            "python_64_rate_over_pyzmq",
            python_stream("zmq-push"),
            python_stream("send"),
            64,
            least(2.0),
        )),
        new("python_async_64_over_plain", python("async"), waits, 64, most(1.5)),
    ]
}

/// Returns the names of all figures.
pub(super) fn names() -> Vec<&'static str> {
    comparisons().into_iter().map(|comparison| comparison.name).chain(GNURADIO).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_differ_and_both_ends_of_a_comparison_do_the_same() {
        let all = comparisons();
        let mut names = names();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len() + GNURADIO.len());
        for SubjectPair { name, over, under, .. } in all {
            assert_eq!((over.roles, over.timed), (under.roles, under.timed), "{name}");
        }
    }
}
