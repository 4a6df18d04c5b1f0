//! The results of a run, connection by connection.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use stripline::component::{FileReport, Value};
use stripline::inspect::AgeReport;
use stripline::link::{ConnectionReport, LatencyReport};

use super::connection_state::ConnectionState;
use super::paths::PathTimes;
use crate::transport_choice::ChosenBy;

/// The results of a whole run.
///
/// ```
/// use stripline_waveform::RunReport;
///
/// fn exit_code(report: &RunReport) -> u8 {
///     for connection in &report.connections {
///         println!("{} -> {}: {} packets", connection.from, connection.to, connection.packets);
///     }
///     u8::from(report.failure.is_some())
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RunReport {
    /// The name of the waveform.
    pub waveform: String,
    /// Seconds from the start of all components to the end of the last one.
    pub duration_s: f64,
    /// The reason for the failure; `None` if the waveform ended cleanly.
    pub failure: Option<String>,
    /// The reason why the waveform was stopped early; `None` if it ended by itself.
    pub stopped: Option<String>,
    /// The components, in the order of the waveform.
    pub components: Vec<ComponentResult>,
    /// The connections, in the order of the waveform.
    pub connections: Vec<ConnectionResult>,
    /// The slowest path to each component without outputs, if it has several connections.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<PathTimes>,
}

/// A component of a run.
///
/// ```
/// use stripline_waveform::ComponentResult;
///
/// fn row(component: &ComponentResult) -> String {
///     format!("{}: {}, started again {} times", component.name, component.outcome, component.restarts)
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ComponentResult {
    /// The name in the waveform.
    pub name: String,
    /// The component type.
    #[serde(rename = "type")]
    pub type_name: String,
    /// `thread` or `process`.
    pub placement: String,
    /// Number of restarts.
    pub restarts: u32,
    /// The reason for the last restart, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_restart: Option<String>,
    /// `ended`, `failed` or `stopped`.
    pub outcome: String,
    /// The reason why the component failed, if the waveform went on without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// How well the component kept the pace, if it is a source with a pace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<PaceResult>,
    /// The files that the component has written, and what is missing from them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<FileReport>,
    /// The values that were set during the run, by property.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Value>,
}

/// The pace of a source: the scheduled rate and the achieved rate.
///
/// ```
/// use stripline_waveform::PaceResult;
///
/// let half = r#"{ "rate": 2e6, "achieved_rate": 1e6, "behind_s": 5.0, "behind_max_s": 5.0 }"#;
/// let half: PaceResult = serde_json::from_str(half).unwrap();
/// assert!(half.is_behind(10.0) && half.held_up_by.is_none());
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaceResult {
    /// The rate that the properties of the source ask for, in samples/s.
    pub rate: f64,
    /// The rate that the source reached over the whole time.
    pub achieved_rate: f64,
    /// The time by which the source was behind the schedule at the end, in seconds.
    pub behind_s: f64,
    /// The longest time by which the source was behind the schedule, in seconds.
    pub behind_max_s: f64,
    /// The receiver that held the source up, if the source was behind because of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_up_by: Option<HeldUp>,
    /// The component that left the source no time, because it spins on the same processor at a
    /// real-time priority.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starved_by: Option<String>,
}

impl PaceResult {
    /// The shortest time behind the schedule that counts as more than the system's own delays, in
    /// seconds.
    const BEHIND_S_MIN: f64 = 0.1;
    /// The same limit as a part of the run.
    const BEHIND_SHARE_MIN: f64 = 0.01;

    /// Returns whether the source has missed the schedule in a run of `duration_s` seconds: whether
    /// it was, at the end or before, behind by at least 0.1 s and 1 % of the run.
    pub fn is_behind(&self, duration_s: f64) -> bool {
        Self::is_delay(self.behind_max_s, duration_s)
    }

    /// Returns whether `behind_s` is more than the system's own delays, in a run of `duration_s`
    /// seconds.
    pub(super) fn is_delay(behind_s: f64, duration_s: f64) -> bool {
        behind_s >= Self::BEHIND_S_MIN.max(duration_s * Self::BEHIND_SHARE_MIN)
    }
}

/// The connection of the receiver that held a source up.
///
/// ```
/// use stripline_waveform::HeldUp;
///
/// let held = r#"{ "connection": "source.out -> slow.in", "full": 0.9, "service_mean_ns": 1e6 }"#;
/// let held: HeldUp = serde_json::from_str(held).unwrap();
/// assert_eq!(held.connection, "source.out -> slow.in");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldUp {
    /// The connection behind the source, or one further on.
    pub connection: String,
    /// Other connections, with receivers that were about as busy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<String>,
    /// The share of the time, while a source was late, in which the sender waited for room or for
    /// an acknowledgement.
    pub full: Option<f64>,
    /// The part of `full` in which the sender waited for an acknowledgement.
    #[serde(default)]
    pub unacknowledged: Option<f64>,
    /// The mean time for which the receiver kept a packet; `None` if nothing was measured.
    pub service_mean_ns: Option<f64>,
}

/// A connection of a run.
///
/// ```
/// use stripline_waveform::ConnectionResult;
///
/// /// The part of the packets that was lost, 0 to 1.
/// fn loss(connection: &ConnectionResult) -> f64 {
///     connection.lost as f64 / (connection.lost + connection.packets).max(1) as f64
/// }
/// ```
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConnectionResult {
    /// The sending port.
    pub from: String,
    /// The receiving port.
    pub to: String,
    /// The transport's name.
    pub transport: String,
    /// The origin of the transport.
    #[serde(default)]
    pub chosen_by: ChosenBy,
    /// The transports that `auto` passed over, each with the rule that struck it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<String>,
    /// The payload type.
    pub payload: String,
    /// Packets sent by the sending port; `None` if the component died without a report.
    pub sent: Option<u64>,
    /// Packets received.
    pub packets: u64,
    /// Payload bytes received.
    pub bytes: u64,
    /// Payload bytes per second over the run.
    pub bytes_per_s: f64,
    /// Packets lost.
    pub lost: u64,
    /// Packets that were sent but are neither received nor counted as lost. The receiver ended or
    /// died before it took them, or died before it reported them.
    pub unaccounted: Option<u64>,
    /// Samples lost, except those lost by a restart, which cannot be counted.
    pub lost_samples: u64,
    /// Gaps reported to the receiver.
    pub gaps: u64,
    /// Packets that arrived after a later one. With `resequence` they were put back in sequence.
    pub reordered: u64,
    /// Whether the connection has `resequence`.
    #[serde(default)]
    pub resequenced: bool,
    /// Number of times that the sender disappeared.
    pub peer_deaths: u64,
    /// The share of the time in which the sender waited for room or for an acknowledgement; `None`
    /// if it was not measured, in a run of less than half a second.
    #[serde(default)]
    pub full: Option<f64>,
    /// Time from sent to taken by the component, in nanoseconds.
    pub latency_ns: LatencyReport,
    /// The part of the latency for which the component was busy, in nanoseconds.
    pub queued_ns: LatencyReport,
    /// Time from taken to finished, in nanoseconds. Of windows that span packets: from one window
    /// to the request for the next.
    pub service_ns: LatencyReport,
    /// The age of the samples when the component took them; `None` if no packet had a time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<AgeReport>,
    /// Whether a receiver died before it reported the last figures.
    #[serde(default)]
    pub receiver_died: bool,
    /// `complete`, or `partial` if the receiver died before it reported the last figures.
    pub statistics: String,
}

/// The progress of a run.
///
/// ```
/// use stripline_waveform::Progress;
///
/// let progress = Progress { elapsed_s: 0.25, connections: Vec::new(), ended: (1, 3) };
/// assert_eq!(format!("{} of {} ended", progress.ended.0, progress.ended.1), "1 of 3 ended");
/// ```
#[derive(Clone, Debug)]
pub struct Progress {
    /// Seconds since all components have been running.
    pub elapsed_s: f64,
    /// The counters of every connection, in the order of the waveform.
    pub connections: Vec<ConnectionReport>,
    /// The number of components that have ended, and the number of all components.
    pub ended: (usize, usize),
}

impl RunReport {
    /// The failure of a run that `stripline stop --now` ended on request.
    pub const ENDED_NOW: &str = "ended at once by `stripline stop --now`; packets on their way are lost";
}

impl ConnectionResult {
    pub(super) fn new(link: &ConnectionState, duration_s: f64) -> Self {
        let plan = link.plan;
        let total = link.total();
        let counters = &total.counters;
        let known = counters.packets.saturating_add(counters.lost);
        let unaccounted = link.sent.map(|sent| sent.saturating_sub(known));
        let partial = link.partial || unaccounted.is_some_and(|count| count > 0);
        Self {
            from: plan.from.to_string(),
            to: plan.to.to_string(),
            transport: link.transport.clone(),
            chosen_by: link.chosen_by(),
            passed_over: if link.was_moved { None } else { plan.choice.passed_over() },
            payload: plan.payload.to_string(),
            sent: link.sent,
            packets: counters.packets,
            bytes: counters.bytes,
            bytes_per_s: if duration_s > 0.0 { counters.bytes as f64 / duration_s } else { 0.0 },
            lost: counters.lost,
            unaccounted,
            lost_samples: counters.lost_samples,
            gaps: counters.gaps,
            reordered: counters.reordered,
            resequenced: plan.options.resequence.is_some(),
            peer_deaths: counters.peer_deaths,
            full: link.full_share(),
            latency_ns: total.latency.percentiles(),
            queued_ns: total.queued.percentiles(),
            service_ns: total.service.percentiles(),
            age: counters.age,
            receiver_died: link.partial,
            statistics: if partial { "partial".into() } else { "complete".into() },
        }
    }
}
