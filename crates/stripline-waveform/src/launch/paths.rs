//! The slowest path to each sink of a waveform, and where the time goes on it.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::report::ConnectionResult;

/// The mean times of a path through a waveform. Means add up, unlike percentiles. The waits that no
/// connection measures are missing: for room, and for the samples that complete a window.
///
/// ```
/// use stripline_waveform::PathTimes;
///
/// let path = r#"{ "connections": ["a.out -> b.in", "b.out -> c.in"], "mean_ns": 900, "transfer_ns": 200,
///     "queued_ns": 300, "service_ns": 400, "largest": { "part": "service", "at": "b", "mean_ns": 400 } }"#;
/// let path: PathTimes = serde_json::from_str(path).unwrap();
/// assert_eq!((path.from(), path.to()), ("a", "c"));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathTimes {
    /// The connections, `from -> to`, from the source on.
    pub connections: Vec<String>,
    /// The time from the send of the source until the last component takes the packet, in
    /// nanoseconds: the sum of the three parts.
    pub mean_ns: u64,
    /// The part under way, and in which receivers woke.
    pub transfer_ns: u64,
    /// The part in which packets waited for busy components.
    pub queued_ns: u64,
    /// The part in the components on the way.
    pub service_ns: u64,
    /// The largest part at one place.
    pub largest: PathPart,
}

/// A part of the time on a path.
///
/// ```
/// let part = r#"{ "part": "queued", "at": "filter.in", "mean_ns": 4190000 }"#;
/// let part: stripline_waveform::PathPart = serde_json::from_str(part).unwrap();
/// assert_eq!(part.at, "filter.in");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPart {
    /// `transfer`, `queued` or `service`.
    pub part: String,
    /// The receiving port, or the component for `service`.
    pub at: String,
    /// The mean time, in nanoseconds.
    pub mean_ns: u64,
}

impl PathTimes {
    /// Returns the component at the begin.
    pub fn from(&self) -> &str {
        self.end(self.connections.first(), |(from, _)| from)
    }

    /// Returns the component at the end.
    pub fn to(&self) -> &str {
        self.end(self.connections.last(), |(_, to)| to)
    }

    fn end<'a>(
        &self,
        connection: Option<&'a String>,
        side: impl Fn((&'a str, &'a str)) -> &'a str,
    ) -> &'a str {
        connection.and_then(|text| text.split_once(" -> ")).map_or("", |ends| component(side(ends)))
    }

    /// Returns the slowest path of several connections to each component without outputs.
    /// Connections without a measured packet belong to no path.
    pub(super) fn slowest(connections: &[ConnectionResult]) -> Vec<Self> {
        let hops: Vec<PathHop<'_>> = connections.iter().filter_map(PathHop::new).collect();
        let mut ends: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut missing: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, hop) in hops.iter().enumerate() {
            ends.entry(hop.from).or_default().push(index);
            ends.entry(hop.to).or_default();
            *missing.entry(hop.to).or_default() += 1;
        }
        // The last hop of the slowest path to each component, and the time of the path, with the
        // service unless the path ends there.
        let mut slowest: BTreeMap<&str, (usize, u64)> = BTreeMap::new();
        let mut due: VecDeque<&str> =
            ends.keys().copied().filter(|name| !missing.contains_key(name)).collect();
        let mut done: Vec<&str> = Vec::new();
        loop {
            // Where only loops are left, a connection of a loop is left out.
            let next = due.pop_front().or_else(|| missing.keys().copied().next());
            let Some(name) = next else { break };
            missing.remove(name);
            done.push(name);
            let before = slowest.get(name).map_or(0, |(_, ns)| *ns);
            for index in &ends[name] {
                let hop = &hops[*index];
                let Some(count) = missing.get_mut(hop.to) else { continue };
                let service_ns = if ends[hop.to].is_empty() { 0 } else { hop.service_ns };
                let times = [hop.transfer_ns, hop.queued_ns, service_ns];
                let ns = times.into_iter().fold(before, u64::saturating_add);
                let best = slowest.entry(hop.to).or_insert((*index, ns));
                if ns > best.1 {
                    *best = (*index, ns);
                }
                *count -= 1;
                if *count == 0 {
                    missing.remove(hop.to);
                    due.push_back(hop.to);
                }
            }
        }
        let sinks = ends.iter().filter(|(_, outputs)| outputs.is_empty()).map(|(name, _)| *name);
        sinks.filter_map(|sink| Self::to_sink(sink, &hops, &slowest)).collect()
    }

    fn to_sink(sink: &str, hops: &[PathHop<'_>], slowest: &BTreeMap<&str, (usize, u64)>) -> Option<Self> {
        let mut way = Vec::new();
        let mut at = sink;
        while let Some((last, _)) = slowest.get(at) {
            way.push(&hops[*last]);
            at = hops[*last].from;
        }
        way.reverse();
        if way.len() < 2 {
            return None;
        }
        let inner = &way[..way.len() - 1];
        let part = |part: &str, at: &str, mean_ns| PathPart { part: part.into(), at: at.into(), mean_ns };
        let services = inner.iter().map(|hop| part("service", hop.to, hop.service_ns));
        let waits = way.iter().flat_map(|hop| {
            let at = &*hop.connection.to;
            [part("transfer", at, hop.transfer_ns), part("queued", at, hop.queued_ns)]
        });
        let parts: Vec<PathPart> = services.chain(waits).collect();
        let sum = |name: &str| {
            let of_name = parts.iter().filter(|part| part.part == name);
            of_name.fold(0_u64, |sum, part| sum.saturating_add(part.mean_ns))
        };
        let [transfer_ns, queued_ns, service_ns] = ["transfer", "queued", "service"].map(sum);
        Some(Self {
            connections: way.iter().map(|hop| hop.name()).collect(),
            mean_ns: transfer_ns.saturating_add(queued_ns).saturating_add(service_ns),
            transfer_ns,
            queued_ns,
            service_ns,
            largest: parts.into_iter().max_by_key(|part| part.mean_ns)?,
        })
    }
}

/// A connection with measured packets.
struct PathHop<'a> {
    connection: &'a ConnectionResult,
    from: &'a str,
    to: &'a str,
    transfer_ns: u64,
    queued_ns: u64,
    service_ns: u64,
}

impl<'a> PathHop<'a> {
    fn new(connection: &'a ConnectionResult) -> Option<Self> {
        let ConnectionResult { from, to, latency_ns, queued_ns, service_ns, .. } = connection;
        let queued_ns = queued_ns.mean.unwrap_or(0);
        let transfer_ns = latency_ns.mean?.saturating_sub(queued_ns);
        let service_ns = service_ns.mean.unwrap_or(0);
        Some(Self {
            connection,
            from: component(from),
            to: component(to),
            transfer_ns,
            queued_ns,
            service_ns,
        })
    }

    fn name(&self) -> String {
        format!("{} -> {}", self.connection.from, self.connection.to)
    }
}

/// Returns the component of a port.
fn component(port: &str) -> &str {
    port.rsplit_once('.').map_or(port, |(component, _)| component)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns a connection with mean times: latency, the queued part, and service.
    fn connection(from: &str, to: &str, [latency, queued, service]: [u64; 3]) -> ConnectionResult {
        let times = |mean: u64| {
            format!(r#"{{"p50":null,"p99":null,"p999":null,"max":null,"mean":{mean},"samples":1}}"#)
        };
        let text = format!(
            r#"{{"from":"{from}.out","to":"{to}.in","transport":"shm","payload":"f32","sent":1,"packets":1,"bytes":4,
            "bytes_per_s":1.0,"lost":0,"unaccounted":0,"lost_samples":0,"gaps":0,"reordered":0,"peer_deaths":0,
            "latency_ns":{},"queued_ns":{},"service_ns":{},"statistics":"complete"}}"#,
            times(latency),
            times(queued),
            times(service)
        );
        serde_json::from_str(&text).unwrap()
    }

    /// Takes the slower of two branches, and names the largest part.
    #[test]
    fn the_slowest_branch_is_the_path() {
        let all = [
            connection("a", "b", [10, 4, 7]),
            connection("a", "c", [20, 0, 5]),
            connection("b", "d", [10, 8, 1]),
            connection("c", "d", [1, 0, 900]),
            connection("a", "e", [1000, 0, 0]),
        ];
        let [path] = &PathTimes::slowest(&all)[..] else { panic!("one path has several connections") };
        assert_eq!((path.from(), path.to()), ("a", "d"));
        assert_eq!(path.connections, ["a.out -> b.in", "b.out -> d.in"]);
        assert_eq!((path.transfer_ns, path.queued_ns, path.service_ns, path.mean_ns), (8, 12, 7, 27));
        assert_eq!(path.largest, PathPart { part: "queued".into(), at: "d.in".into(), mean_ns: 8 });
    }

    /// Leaves a loop at some connection, and adds nothing twice.
    #[test]
    fn a_loop_is_left_out() {
        let all = [
            connection("a", "b", [1, 0, 1]),
            connection("b", "c", [1, 0, 1]),
            connection("c", "b", [1, 0, 1]),
            connection("c", "d", [1, 0, 1]),
        ];
        let [path] = &PathTimes::slowest(&all)[..] else { panic!("one sink") };
        assert_eq!((path.to(), path.mean_ns), ("d", 5), "{path:?}");
        assert!(PathTimes::slowest(&all[1..3]).is_empty(), "no sink");
    }

    proptest! {
        /// Compares the time with the largest sum over all paths of a small graph without loops.
        #[test]
        fn no_path_is_slower(
            edges in proptest::collection::vec((0..5_u8, 0..5_u8, 0..50_u64, 0..50_u64), 0..12)
        ) {
            type Edge = (u8, u8, u64, u64);
            fn longest(edges: &[Edge], from: u8, to: u8) -> Option<u64> {
                let on = |edge: &&Edge| edge.0 == from;
                let times = edges.iter().filter(on).filter_map(|(_, next, latency, service)| match next {
                    _ if *next == to => Some(*latency),
                    _ => longest(edges, *next, to).map(|rest| latency + service + rest),
                });
                times.max()
            }
            let name = |number: u8| ((b'a' + number) as char).to_string();
            let edges: Vec<Edge> = edges.into_iter().filter(|edge| edge.0 < edge.1).collect();
            let of = |(from, to, latency, service): &Edge| {
                connection(&name(*from), &name(*to), [*latency, 0, *service])
            };
            let all: Vec<_> = edges.iter().map(of).collect();
            for path in PathTimes::slowest(&all) {
                let sink = path.to().bytes().next().unwrap() - b'a';
                let times = (0..sink).filter(|from| !edges.iter().any(|edge| edge.1 == *from));
                let slowest = times.filter_map(|from| longest(&edges, from, sink)).max();
                prop_assert_eq!(Some(path.mean_ns), slowest);
            }
        }
    }
}
