//! The metrics in the text format of Prometheus, version 0.0.4.

use std::fmt::Write;

use stripline::inspect::AgeReport;

use super::model::PageState;
use crate::running::{Connection, Counts};

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The buckets of latencies end at these powers of two, in nanoseconds: 1 µs to 17 s.
const LATENCY_BITS: std::ops::RangeInclusive<u32> = 10..=34;

/// A count or gauge of each connection: name, type, help and value.
type Metric = (&'static str, &'static str, &'static str, fn(&Connection) -> Option<u64>);

const OF_CONNECTIONS: [Metric; 7] = [
    ("packets_total", "counter", "Packets received.", |it| Some(it.counts.packets)),
    ("bytes_total", "counter", "Payload received, in bytes.", |it| Some(it.counts.bytes)),
    ("lost_packets_total", "counter", "Packets lost.", |it| Some(it.counts.lost)),
    ("gaps_total", "counter", "Gaps reported in band.", |it| Some(it.counts.gaps)),
    ("reordered_packets_total", "counter", "Packets that arrived after a later one.", |it| {
        Some(it.counts.reordered)
    }),
    ("waiting_packets", "gauge", "Packets sent that wait for the receiver; not there if unknown.", |it| {
        it.waiting
    }),
    ("depth_packets", "gauge", "Packets that may wait before the overflow policy acts.", |it| {
        Some(it.depth.into())
    }),
];

/// A gauge of the ages of samples, in seconds: name, help and value.
type AgeMetric = (&'static str, &'static str, fn(&AgeReport) -> Option<f64>);

const OF_AGES: [AgeMetric; 3] = [
    ("age_seconds", "Age of the samples measured last; not there without a time.", |it| {
        Some(it.last_ns as f64 / 1e9)
    }),
    ("age_max_seconds", "Largest age of samples.", |it| Some(it.max_ns as f64 / 1e9)),
    ("age_error_seconds", "Error of the ages by the clock of the stream; not there if unknown.", |it| {
        it.clock?.error_ns.map(|ns| ns as f64 / 1e9)
    }),
];

/// A time of the measured packets: name, help, and the packets with the sum of their times.
type TimeMetric = (&'static str, &'static str, fn(&Counts) -> (u64, u64));

const OF_TIMES: [TimeMetric; 2] = [
    ("queued_seconds", "Part of the latency in which the receiver was busy.", Counts::queued),
    (
        "service_seconds",
        "Time for which the receiver used packets, or windows that span packets.",
        Counts::service,
    ),
];

/// Returns all metrics.
pub(super) fn text(snapshot: &PageState) -> String {
    let mut text = Text::default();
    text.head("stripline_waveform_running_seconds", "gauge", "Seconds since all components run.");
    for it in &snapshot.waveforms {
        let labels = labels(&[("waveform", &it.name), ("pid", &it.pid.to_string())]);
        text.line("stripline_waveform_running_seconds", &labels, it.elapsed_s);
    }
    text.head("stripline_component_restarts_total", "counter", "Restarts of a component.");
    for (waveform, it) in snapshot.waveforms.iter().flat_map(|w| w.components.iter().map(move |it| (w, it))) {
        let pid = waveform.pid.to_string();
        let labels = labels(&[("waveform", &waveform.name), ("pid", &pid), ("component", &it.name)]);
        text.line("stripline_component_restarts_total", &labels, it.restarts);
    }
    text.head("stripline_component_state", "gauge", "1 for the state that a component has.");
    for (waveform, it) in snapshot.waveforms.iter().flat_map(|w| w.components.iter().map(move |it| (w, it))) {
        let pid = waveform.pid.to_string();
        let known =
            [("waveform", &*waveform.name), ("pid", &pid), ("component", &it.name), ("state", &it.state)];
        text.line("stripline_component_state", &labels(&known), 1);
    }
    let connections: Vec<(String, &Connection)> =
        snapshot.connections.iter().map(|it| (connection_labels(snapshot, it), it)).collect();
    for (name, kind, help, value) in OF_CONNECTIONS {
        let name = format!("stripline_connection_{name}");
        text.head(&name, kind, help);
        for (labels, it) in &connections {
            if let Some(value) = value(it) {
                text.line(&name, labels, value);
            }
        }
    }
    for (name, help, value) in OF_AGES {
        let name = format!("stripline_connection_{name}");
        text.head(&name, "gauge", help);
        for (labels, it) in &connections {
            if let Some(value) = it.age.as_ref().and_then(value) {
                text.line(&name, labels, value);
            }
        }
    }
    let name = "stripline_connection_latency_seconds";
    text.head(
        name,
        "histogram",
        "Time from send to receive of the measured packets; the sum is of bucket middles.",
    );
    for (labels, it) in &connections {
        text.histogram(name, labels, &it.latency);
    }
    for (name, help, total) in OF_TIMES {
        let name = format!("stripline_connection_{name}");
        text.head(&name, "summary", help);
        for (labels, it) in &connections {
            let (packets, sum_ns) = total(&it.counts);
            text.line(&format!("{name}_sum"), labels, sum_ns as f64 / 1e9);
            text.line(&format!("{name}_count"), labels, packets);
        }
    }
    text.head("stripline_problems", "gauge", "Processes and launchers that did not answer.");
    text.line("stripline_problems", "", snapshot.silent);
    text.0
}

#[derive(Default)]
struct Text(String);

// Writing to a `String` cannot fail.
impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &str, value: impl std::fmt::Display) {
        let _ = match labels {
            "" => writeln!(self.0, "{name} {value}"),
            labels => writeln!(self.0, "{name}{{{labels}}} {value}"),
        };
    }

    fn histogram(&mut self, name: &str, labels: &str, latency: &[(u64, u64)]) {
        let mut count = 0;
        let mut rest = latency.iter().peekable();
        for bits in LATENCY_BITS {
            // A bucket of `latency` never crosses a power of two.
            while let Some((_, packets)) = rest.next_if(|(start, _)| *start < 1 << bits) {
                count += packets;
            }
            let seconds = (1u64 << bits) as f64 / 1e9;
            self.line(&format!("{name}_bucket"), &format!("{labels},le=\"{seconds}\""), count);
        }
        count += rest.map(|(_, packets)| packets).sum::<u64>();
        self.line(&format!("{name}_bucket"), &format!("{labels},le=\"+Inf\""), count);
        // A bucket is a quarter of a power of two wide.
        let middle = |start: u64| start as f64 + (1u64 << start.max(1).ilog2()) as f64 / 8.0;
        let sum: f64 = latency.iter().map(|(start, packets)| middle(*start) * *packets as f64).sum();
        self.line(&format!("{name}_sum"), labels, sum / 1e9);
        self.line(&format!("{name}_count"), labels, count);
    }
}

fn connection_labels(snapshot: &PageState, it: &Connection) -> String {
    let waveform = snapshot.waveforms.iter().find(|waveform| Some(waveform.pid) == it.launcher);
    labels(&[
        ("waveform", waveform.map_or("", |waveform| &waveform.name)),
        ("pid", &it.launcher.map_or(String::new(), |pid| pid.to_string())),
        ("from", &it.from),
        ("to", &it.to),
        ("transport", &it.transport),
    ])
}

fn labels(pairs: &[(&str, &str)]) -> String {
    let escaped = |value: &str| value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
    let pairs: Vec<String> =
        pairs.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::super::model::example;
    use super::*;

    #[test]
    fn every_family_has_its_head_and_labels_are_escaped() {
        let text = text(&example());
        let labels = r#"waveform="radio \"1\"",pid="9",from="a.out",to="b.in",transport="shm""#;
        for line in [
            "# HELP stripline_connection_packets_total Packets received.".to_string(),
            "# TYPE stripline_connection_packets_total counter".into(),
            format!("stripline_connection_packets_total{{{labels}}} 100"),
            format!("stripline_connection_waiting_packets{{{labels}}} 48"),
            format!("stripline_connection_age_seconds{{{labels}}} -0.5"),
            format!("stripline_connection_age_max_seconds{{{labels}}} 12.5"),
            format!("stripline_connection_age_error_seconds{{{labels}}} 0.001"),
            r#"stripline_component_restarts_total{waveform="radio \"1\"",pid="9",component="a"} 3"#.into(),
            r#"stripline_waveform_running_seconds{waveform="radio \"1\"",pid="9"} 2.5"#.into(),
            "# TYPE stripline_connection_latency_seconds histogram".into(),
            format!("stripline_connection_latency_seconds_bucket{{{labels},le=\"0.000001024\"}} 0"),
            format!("stripline_connection_latency_seconds_bucket{{{labels},le=\"0.000002048\"}} 100"),
            format!("stripline_connection_latency_seconds_bucket{{{labels},le=\"+Inf\"}} 100"),
            format!("stripline_connection_latency_seconds_sum{{{labels}}} 0.0001254400"),
            format!("stripline_connection_latency_seconds_count{{{labels}}} 100"),
            format!("stripline_connection_queued_seconds_sum{{{labels}}} 0"),
            format!("stripline_connection_service_seconds_count{{{labels}}} 0"),
            "stripline_problems 0".into(),
        ] {
            assert!(
                text.lines().any(|it| it.trim_end_matches('0') == line.trim_end_matches('0')),
                "{line}:\n{text}"
            );
        }
        let names: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")).collect();
        let mut once = names.clone();
        once.dedup();
        assert_eq!((names.len(), &names), (17, &once));
    }

    #[test]
    fn an_unknown_value_has_no_line() {
        let mut snapshot = example();
        snapshot.connections[0].waiting = None;
        snapshot.connections[0].age = None;
        let text = text(&snapshot);
        for name in ["waiting_packets", "age_seconds", "age_error_seconds"] {
            assert!(!text.contains(&format!("stripline_connection_{name}{{")), "{name}:\n{text}");
        }
    }

    #[test]
    fn a_label_cannot_end_its_line() {
        assert_eq!(labels(&[("a", "x\"} 1\nb\\")]), r#"a="x\"} 1\nb\\""#);
    }

    #[test]
    fn times_beyond_the_last_bucket_count_in_the_infinite_one() {
        let mut text = Text::default();
        text.histogram("t", "a=\"b\"", &[(100, 1), (1 << 40, 2)]);
        assert!(text.0.contains("t_bucket{a=\"b\",le=\"0.000001024\"} 1\n"), "{}", text.0);
        assert!(
            text.0.contains("le=\"17.179869184\"} 1\n") && text.0.contains("le=\"+Inf\"} 3\n"),
            "{}",
            text.0
        );
    }
}
