//! The rules for streams are true: every stock component is tested with every key of a description.

#![allow(clippy::unwrap_used)]

mod stage;

use std::collections::BTreeSet;
use std::path::Path;

use num_complex::Complex;
use stage::{Part, Stage, stage};
use stripline::component::{Direction, StreamShape, Value};
use stripline::{Axis, ClockReference, Sample, StreamClock, StreamInfo};
use stripline_components::components::{STREAM_KEYS, STREAM_RULES, StreamRule};
use stripline_components::{adsb, components, registry};
use stripline_middleware::gnuradio::{CarriedTags, Pmt, Tag};
use stripline_middleware::internal::flowgraph_socket;

/// Components that connect to other programs, or to a tuner. A program has some only with their
/// features.
const JOINING: [&str; 7] =
    ["bulkio-sink", "dds-sink", "gr-zeromq-sink", "scanner", "soapy-sink", "vita49-sink", "zenoh-sink"];

#[test]
fn every_component_with_an_input_has_rules() {
    let specs = registry();
    let has_input =
        |name: &&str| specs.specs()[*name].ports.iter().any(|port| port.direction == Direction::Input);
    let names: BTreeSet<&str> = specs.specs().keys().map(String::as_str).filter(has_input).collect();
    let ruled: BTreeSet<&str> = STREAM_RULES.iter().map(|(name, _)| type_of(name)).collect();
    let missing: Vec<&&str> = names.difference(&ruled).collect();
    assert_eq!(missing, [&""; 0]);
    let unknown: Vec<&&str> = ruled.difference(&names).filter(|name| !JOINING.contains(name)).collect();
    assert_eq!(unknown, [&""; 0]);
}

#[test]
fn the_check_refuses_what_the_component_refuses() {
    let registry = registry();
    for (name, rules) in STREAM_RULES {
        let Some(spec) = registry.specs().get(type_of(name)) else { continue };
        let refused =
            |key| rules[STREAM_KEYS.iter().position(|known| *known == key).unwrap()] == StreamRule::Refused;
        assert_eq!(spec.order.takes_channels, !refused("channels"), "{name}");
        let takes_signal_only = spec.ports.iter().any(|port| port.shape == Some(StreamShape::Signal));
        assert_eq!(takes_signal_only, refused("row_length"), "{name}");
        // A component that sends samples of several channels does not drop their description.
        let channels = rules[STREAM_KEYS.iter().position(|known| *known == "channels").unwrap()];
        assert!(channels != StreamRule::LeftOut || name.ends_with("-sink"), "{name}");
    }
}

#[test]
fn the_document_has_the_rules() {
    let keys: Vec<String> = STREAM_KEYS.iter().map(|key| format!("`{key}`")).collect();
    let mut table = format!("| | {} |\n{}|\n", keys.join(" | "), "| --- ".repeat(STREAM_KEYS.len() + 1));
    // Components with the same rules share a row.
    let mut rows: Vec<(&[StreamRule], Vec<String>)> = Vec::new();
    for (name, rules) in STREAM_RULES {
        let mode = name.split_once(", ").map_or(String::new(), |(_, mode)| format!(" ({mode})"));
        let name = format!("`{}`{mode}", type_of(name));
        match rows.iter_mut().find(|row| row.0 == rules) {
            Some(row) => row.1.push(name),
            None => rows.push((rules, vec![name])),
        }
    }
    // Components with one rule for all keys are below the table.
    let is_uniform = |rules: &[StreamRule]| rules.iter().all(|rule| *rule == rules[0]);
    let (uniform, rows): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| is_uniform(row.0));
    for (rules, names) in rows {
        let rules: Vec<&str> = rules.iter().map(|rule| rule.text()).collect();
        table += &format!("| {} | {} |\n", names.join(", "), rules.join(" | "));
    }
    table += "\nThe same rule for all keys:\n\n";
    for (rules, names) in uniform {
        table += &format!("- {}: {}\n", rules[0].text(), names.join(", "));
    }
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/components.md");
    let document = std::fs::read_to_string(document).unwrap();
    assert!(document.contains(&table), "docs/components.md must have this table:\n{table}");
}

fn type_of(name: &str) -> &str {
    name.split(',').next().unwrap()
}

/// The packets that a component has sent, and the content of the component's file.
#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    stream: StreamInfo,
    indexes: Vec<u64>,
    times: Vec<i64>,
    samples: Vec<Vec<u8>>,
    file: Vec<u8>,
}

/// Packets with a description.
type Feed<T> = (StreamInfo, Vec<Part<T>>);

/// Returns a stream with variants of a key: missing, with a value, or with another value.
fn with_key<T: Sample>((mut stream, mut packets): Feed<T>, key: &str, variant: usize) -> Feed<T> {
    let n = variant as f64;
    match key {
        "sample_rate_hz" => stream.sample_rate_hz = [None, stream.sample_rate_hz, Some(96e3)][variant],
        "center_frequency_hz" => stream.center_frequency_hz = (variant > 0).then_some(1e6 * n),
        "row_length" => {
            stream.row_length = [None, Some(4), Some(8)][variant];
            // Without rows, there is one axis.
            stream.axes.truncate(1 + variant);
        }
        "frame_rows" => {
            (stream.row_length, stream.frame_rows) = (Some(4), [None, Some(2), Some(5)][variant]);
        }
        "axes" => {
            let rows = stream.row_length.is_some();
            let first = Axis::new(0.0, n, ["", "s", "m"][variant]);
            let axes = if rows { vec![first, Axis::new(0.0, n, "s")] } else { vec![first] };
            stream.axes = if variant == 0 { Vec::new() } else { axes };
        }
        "channels" => {
            let names = [&[][..], &["a", "b"], &["a", "b", "c"]][variant];
            stream.channels = names.iter().map(|name| (*name).to_owned()).collect();
        }
        "clock" => {
            let clock = |error| StreamClock::new(ClockReference::Gps).error_ns(error);
            stream.clock = [None, Some(clock(1)), Some(clock(2))][variant];
        }
        "keywords" if variant > 0 => {
            drop(stream.keywords.insert("gain".into(), n.into()));
            // `gr-zeromq-sink` can only send this keyword.
            let mut tags = CarriedTags::default();
            let key = Pmt::of_symbol("gain").unwrap();
            tags.push(Tag { item: 0, key, value: Pmt::of_number(n), source: Pmt::of_false() });
            stream = tags.describe(stream);
        }
        "keywords" => {}
        "sample_index" => {
            // Add a gap before the second packet, too.
            let shift = [0, 12, 24][variant];
            for (number, (index, _, _)) in packets.iter_mut().enumerate() {
                *index += shift * (1 + 2 * number as u64);
            }
        }
        "time_ns" => {
            packets
                .iter_mut()
                .for_each(|(_, time, _)| *time = if variant == 0 { 0 } else { *time * n as i64 });
        }
        _ => panic!("{key}"),
    }
    (stream, packets)
}

/// Returns whether a key has the same value in the outcome as in the input.
fn is_passed_on<T>(key: &str, feed: &Feed<T>, outcome: &Outcome) -> bool {
    let (sent, received) = (&outcome.stream, &feed.0);
    match key {
        "sample_rate_hz" => sent.sample_rate_hz == received.sample_rate_hz,
        "center_frequency_hz" => sent.center_frequency_hz == received.center_frequency_hz,
        "row_length" => sent.row_length == received.row_length,
        "frame_rows" => sent.frame_rows == received.frame_rows,
        "axes" => sent.axes == received.axes,
        "channels" => sent.channels == received.channels,
        "clock" => sent.clock == received.clock,
        "keywords" => sent.keywords == received.keywords,
        "sample_index" => outcome.indexes.iter().all(|index| feed.1.iter().any(|part| part.0 == *index)),
        _ => outcome.times.iter().all(|time| *time == 0 || feed.1.iter().any(|part| part.1 == *time)),
    }
}

/// Returns an outcome with the value of a key from another outcome.
fn with_key_of(key: &str, base: &Outcome, other: &Outcome) -> Outcome {
    let mut outcome = base.clone();
    let from = &other.stream;
    match key {
        "sample_rate_hz" => outcome.stream.sample_rate_hz = from.sample_rate_hz,
        "center_frequency_hz" => outcome.stream.center_frequency_hz = from.center_frequency_hz,
        "row_length" => outcome.stream.row_length = from.row_length,
        "frame_rows" => outcome.stream.frame_rows = from.frame_rows,
        "axes" => outcome.stream.axes = from.axes.clone(),
        "channels" => outcome.stream.channels = from.channels.clone(),
        "clock" => outcome.stream.clock = from.clock,
        "keywords" => outcome.stream.keywords = from.keywords.clone(),
        "sample_index" => outcome.indexes = other.indexes.clone(),
        _ => outcome.times = other.times.clone(),
    }
    outcome
}

/// Returns an outcome without the key.
fn without(key: &str, outcome: &Outcome) -> Outcome {
    let nothing = Outcome {
        stream: StreamInfo::default(),
        indexes: vec![],
        times: vec![],
        samples: vec![],
        file: vec![],
    };
    with_key_of(key, outcome, &nothing)
}

/// Runs a component with these streams at the inputs.
fn outcome<T: Sample, R: Sample>(component: &Stage, feeds: &[&Feed<T>]) -> Result<Outcome, String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.png");
    let mut component =
        Stage { name: component.name, properties: component.properties.clone(), output: component.output };
    let is_sink = component.name.ends_with("-sink");
    if is_sink && component.name != "null-sink" && !JOINING.contains(&component.name) {
        component.properties.push(("path", Value::Text(path.to_str().unwrap().into())));
    }
    let mut inputs: Vec<_> = feeds.iter().map(|(stream, packets)| (stream, &packets[..])).collect();
    let nothing = StreamInfo::default();
    if component.name == "multiplexer" && feeds.len() == 1 {
        // Use only one stream, because the order of arrival of two streams is not fixed.
        inputs.push((&nothing, &[]));
    }
    let mut flowgraph = None;
    if component.name == "gr-zeromq-sink" {
        let (address, receive) = flowgraph_socket().unwrap();
        component.properties.push(("address", Value::Text(address)));
        component.properties.push(("bind", Value::Boolean(false)));
        flowgraph = Some(receive);
    }
    let (stream, sent) = component.run::<T, R>(&inputs).map_err(|error| error.to_string())?;
    if let Some(receive) = flowgraph {
        let messages = [(); 2].map(|()| receive().unwrap());
        std::fs::write(&path, messages.concat()).unwrap();
    }
    if !is_sink {
        assert!(!sent.is_empty(), "{} has sent nothing", component.name);
    }
    Ok(Outcome {
        stream,
        indexes: sent.iter().map(|part| part.0).collect(),
        times: sent.iter().map(|part| part.1).collect(),
        samples: sent.iter().map(|part| bytemuck::cast_slice(&part.2).to_vec()).collect(),
        file: std::fs::read(path).unwrap_or_default(),
    })
}

/// Returns a description of the fault if the rule of a component for a key is wrong.
fn fault<T: Sample, R: Sample>(
    component: &Stage,
    inputs: usize,
    feed: &Feed<T>,
    key: &str,
    rule: StreamRule,
) -> Option<String> {
    let feeds = [0, 1, 2].map(|variant| with_key(feed.clone(), key, variant));
    let all_of = |variant: usize| outcome::<T, R>(component, &vec![&feeds[variant]; inputs]);
    let outcomes = [0, 1, 2].map(all_of);
    if rule == StreamRule::Refused {
        return match &outcomes[1] {
            Err(error) if error.contains(&format!("`{key}`")) && error.contains(": ") => None,
            other => Some(format!("not refused by its name: {other:?}")),
        };
    }
    let differ = |one: &Result<Outcome, String>, other: &Result<Outcome, String>| match (one, other) {
        (Ok(one), Ok(other)) => without(key, one) != without(key, other),
        (Err(_), Err(_)) => false,
        _ => true,
    };
    let mut is_used = differ(&outcomes[1], &outcomes[0]) || differ(&outcomes[1], &outcomes[2]);
    if inputs > 1 {
        let mixed = outcome::<T, R>(component, &[&feeds[1], &feeds[2]]);
        let is_same = matches!((&mixed, &outcomes[1]), (Ok(mixed), Ok(same)) if mixed == same);
        is_used |= !is_same;
    }
    if is_used != rule.is_used() {
        return Some(format!("used: {is_used}; {outcomes:?}"));
    }
    if rule == StreamRule::Used {
        return None;
    }
    let found = match &outcomes[1] {
        Ok(found) => found,
        Err(error) => return Some(error.clone()),
    };
    let is_as_without = matches!(&outcomes[0], Ok(other) if with_key_of(key, found, other) == *found);
    let has_any = without(key, found) != *found;
    let is_right = match rule {
        StreamRule::PassedOn | StreamRule::UsedAndPassedOn => is_passed_on(key, &feeds[1], found),
        StreamRule::LeftOut => is_as_without || component.name.ends_with("-sink"),
        _ => has_any && !is_passed_on(key, &feeds[1], found),
    };
    (!is_right).then(|| format!("not {}: {found:?}", rule.text()))
}

fn faults<T: Sample, R: Sample>(name: &str, component: &Stage, inputs: usize, feed: &Feed<T>) -> Vec<String> {
    let (_, rules) = STREAM_RULES.iter().find(|(known, _)| *known == name).unwrap();
    let of_keys = STREAM_KEYS.iter().zip(rules).filter_map(|(key, rule)| {
        let mut component = Stage {
            name: component.name,
            properties: component.properties.clone(),
            output: component.output,
        };
        let block = match *key {
            "row_length" => 4,
            "frame_rows" => 8,
            _ => 1,
        };
        if name == "gr-zeromq-sink" && *key == "frame_rows" {
            component.properties.push(("vlen", Value::Integer(4)));
        }
        if name == "multiplexer, interleave" && block > 1 {
            component.properties.push(("block", Value::Integer(block)));
        }
        let fault = fault::<T, R>(&component, inputs, feed, key, *rule)?;
        Some(format!("{name}, {key}: {}", fault.chars().take(600).collect::<String>()))
    });
    of_keys.collect()
}

type Record = components::adsb::FrameRecord;

const START_NS: i64 = 1_000_000_000;

fn feed<T>(rate: f64, packets: [Vec<T>; 2]) -> Feed<T> {
    let stream = StreamInfo::new("s").sample_rate_hz(rate);
    let [one, two] = packets;
    let next = one.len() as u64;
    let time = START_NS + (next as f64 / rate * 1e9) as i64;
    (stream, vec![(0, START_NS, one), (next, time, two)])
}

#[test]
fn every_rule_is_true() {
    let noise = |n: usize| (n * 7919 % 1000) as f32 / 1000.0 + 0.1;
    let real = feed(48e3, [(0..48).map(noise).collect(), (48..100).map(noise).collect()]);
    let complex = |n: usize| Complex::new(noise(n), noise(n + 500));
    let iq = feed(48e3, [(0..50).map(complex).collect(), (50..100).map(complex).collect()]);
    let text = |text: &str| Value::Text(text.into());
    let mut found = Vec::new();

    for (name, component, inputs) in [
        ("adder", stage("adder", []), 2),
        ("awgn", stage("awgn", []), 1),
        ("decimator", stage("decimator", [("factor", Value::Integer(5))]), 1),
        ("fft", stage("fft", [("size", Value::Integer(10))]), 1),
        ("fir-filter", stage("fir-filter", [("high", Value::Float(4e3))]), 1),
        ("multiplexer, interleave", stage("multiplexer", [("mode", text("interleave"))]), 2),
        ("multiplexer, merge", stage("multiplexer", []), 1),
        ("null-sink", stage("null-sink", []), 1),
        ("print-sink", stage("print-sink", [("format", text("json"))]), 1),
        ("resampler", stage("resampler", [("up", Value::Integer(3)), ("down", Value::Integer(7))]), 1),
        ("tee", stage("tee", []), 1),
        ("throttle", stage("throttle", [("rate", Value::Float(1e12))]), 1),
    ] {
        found.extend(faults::<f32, f32>(name, &component, inputs, &real));
    }
    for (name, component) in [
        ("am-demodulator", stage("am-demodulator", [])),
        ("fm-demodulator", stage("fm-demodulator", [("deviation", Value::Float(5e3))])),
        ("magnitude", stage("magnitude", [])),
    ] {
        found.extend(faults::<Complex<f32>, f32>(name, &component, 1, &iq));
    }
    let listen =
        text(&format!("tcp/{}", std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()));
    let folder = tempfile::tempdir().unwrap();
    let ior_file = text(folder.path().join("ior").to_str().unwrap());
    let has = |component: &Stage| registry().specs().contains_key(component.name);
    let joining = [
        stage("zenoh-sink", [("key", text("rules")), ("listen", listen)]),
        stage("dds-sink", [("topic", text("rules"))]),
        stage("bulkio-sink", [("ior_file", ior_file), ("connections", Value::Integer(0))]),
    ];
    for component in joining.into_iter().filter(has) {
        let (name, rules) = STREAM_RULES.iter().find(|(name, _)| *name == component.name).unwrap();
        let channels = STREAM_KEYS.iter().position(|key| *key == "channels").unwrap();
        // The other outputs go to other programs. The tests with these programs check them.
        let fault = fault::<f32, f32>(&component, 1, &real, "channels", rules[channels]);
        found.extend(fault.map(|fault| format!("{name}, channels: {fault}")));
    }
    let vita49 = stage("vita49-sink", [("address", text("127.0.0.1:9"))]);
    let fault = fault::<Complex<f32>, f32>(&vita49, 1, &iq, "channels", StreamRule::Refused);
    found.extend(fault.map(|fault| format!("vita49-sink, channels: {fault}")));
    let flowgraph =
        stage("gr-zeromq-sink", [("tags", Value::Boolean(true)), ("repeat_s", Value::Float(0.0))]);
    if has(&flowgraph) {
        found.extend(faults::<f32, f32>("gr-zeromq-sink", &flowgraph, 1, &real));
    }
    // Test the second of five channels, so that the second packet begins within a frame.
    let channels = (real.0.clone().channels(["v", "w", "x", "y", "z"]), real.1.clone());
    let second = Stage { output: 1, ..stage("demultiplexer", []) };
    found.extend(faults::<f32, f32>("demultiplexer", &second, 1, &channels));
    let select = stage("channel-select", [("channels", text("2"))]);
    found.extend(faults::<f32, f32>("channel-select", &select, 1, &channels));
    let array = (iq.0.clone().channels(["v", "w", "x"]), iq.1.clone());
    found.extend(faults::<Complex<f32>, Complex<f32>>("beamformer", &stage("beamformer", []), 1, &array));
    let mut rows = real;
    rows.0 = rows.0.rows(4, Axis::new(0.0, 1.0, "Hz"), Axis::new(0.0, 1.0, "s"));
    let waterfall = stage("waterfall-sink", [("terminal", Value::Boolean(false))]);
    found.extend(faults::<f32, f32>("waterfall-sink", &waterfall, 1, &rows));

    // Use frames of a simulated sky.
    let source = stage("adsb-source", [("duration_s", Value::Float(0.5))]);
    let (_, sky) = source.run::<u8, Complex<u8>>(&[]).unwrap();
    let sky: Vec<Complex<u8>> = sky.into_iter().flat_map(|(_, _, samples)| samples).collect();
    let demodulator = stage("adsb-demodulator", []);
    let all = feed(2e6, [sky.clone(), Vec::new()]);
    let (_, candidates) = demodulator.run::<_, adsb::Candidate>(&[(&all.0, &all.1[..1])]).unwrap();
    let candidates: Vec<adsb::Candidate> = candidates.into_iter().flat_map(|part| part.2).collect();
    let around = |candidate: &adsb::Candidate| {
        let place = usize::try_from(candidate.sample).unwrap();
        sky[place.saturating_sub(50)..][..1000].to_vec()
    };
    let near = feed(2e6, [around(&candidates[0]), around(&candidates[1])]);
    found.extend(faults::<_, adsb::Candidate>("adsb-demodulator", &demodulator, 1, &near));
    let (one, two) = candidates.split_at(candidates.len() / 2);
    let candidates = feed(2e6, [one.to_vec(), two.to_vec()]);
    let decoder = stage("adsb-decoder", []);
    found.extend(faults::<_, Record>("adsb-decoder", &decoder, 1, &candidates));
    let (_, frames) = decoder.run::<_, Record>(&[(&candidates.0, &candidates.1)]).unwrap();
    let frames: Vec<Record> = frames.into_iter().flat_map(|part| part.2).collect();
    let frames = feed(2e6, [frames.clone(), frames]);
    let sink = stage("adsb-sink", [("table", Value::Boolean(false))]);
    found.extend(faults::<_, Record>("adsb-sink", &sink, 1, &frames));
    assert!(found.is_empty(), "{} faults:\n{}", found.len(), found.join("\n"));
}
