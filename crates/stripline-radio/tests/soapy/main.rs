//! `soapy-source` and `soapy-sink` against a device with planted samples, times and faults:
//! `soapy_module/ramp.cpp`, a module of SoapySDR that this test builds.

#![cfg(feature = "soapy")]
#![allow(clippy::unwrap_used)]

mod remote;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use stripline::call::{CallError, ClientOptions};
use stripline::component::harness::{Harness, HarnessRun};
use stripline::component::{Component, Value};
use stripline::node::{Node, Subscriber};
use stripline::payload::TypeName;
use stripline::{ClockReference, Complex, Sample, StreamClock, StreamInfo};
use stripline_radio::tuner::{TunerClient, TunerError};
use stripline_radio::{SoapySink, SoapySource};

/// Builds the module into a folder. Returns the path of the module.
fn build(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/soapy_module/ramp.cpp");
    let module = folder.join("libramp.so");
    let built = Command::new("c++")
        .args(["-std=c++14", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"])
        .arg(source)
        .arg("-o")
        .arg(&module)
        .arg("-lSoapySDR")
        .status();
    assert!(built.unwrap().success());
    module
}

/// Builds the module, and loads it into this process, with the modules of the system.
fn load() {
    static LOADED: OnceLock<()> = OnceLock::new();
    LOADED.get_or_init(|| {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let path = CString::new(build(folder.path()).to_str().unwrap()).unwrap();
        // SAFETY: the path ends with a zero. The library returns a text, which the test keeps.
        let problem = unsafe { std::ffi::CStr::from_ptr(soapysdr_sys::SoapySDR_loadModule(path.as_ptr())) };
        assert_eq!(problem.to_str(), Ok(""));
        // SAFETY: the library loads each module once, under its own lock.
        unsafe { soapysdr_sys::SoapySDR_loadModules() };
    });
}

/// Returns a harness of a component with the device `driver=ramp`.
fn ramp<C: Component>(serial: &str, arguments: &str) -> Harness {
    load();
    let device = format!("driver=ramp,serial={serial},{arguments}");
    Harness::of::<C>().property("device", device).property("sample_rate", 1e6).property("frequency", 100e6)
}

fn receiver(serial: &str, arguments: &str) -> Harness {
    ramp::<SoapySource>(serial, arguments).property("settle_ms", 0.0).property("tuner", "")
}

/// A packet that a source has sent.
struct Part<T> {
    index: u64,
    time_ns: i64,
    stream: StreamInfo,
    samples: Vec<T>,
}

/// Receives packets up to the sample `end` of the first stream, or of a later one.
fn receive<T: Sample>(output: &mut Subscriber<T>, end: impl Fn(&Part<T>) -> bool) -> Vec<Part<T>> {
    let mut parts = Vec::new();
    loop {
        let packet = output.receive().unwrap().unwrap();
        let part = Part {
            index: packet.sample_index(),
            time_ns: packet.time_ns(),
            stream: StreamInfo::clone(packet.stream()),
            samples: packet.to_vec(),
        };
        let is_last = end(&part);
        parts.push(part);
        if is_last {
            return parts;
        }
    }
}

/// Receives packets up to the sample `end`.
fn receive_to<T: Sample>(output: &mut Subscriber<T>, end: u64) -> Vec<Part<T>> {
    receive(output, |part| part.index + part.samples.len() as u64 >= end)
}

/// Returns the missing samples before each packet behind a gap: the index, and their number.
fn gaps<T>(parts: &[Part<T>]) -> Vec<(u64, u64)> {
    let mut next = 0;
    let mut found = Vec::new();
    for part in parts {
        if part.index != next {
            found.push((next, part.index - next));
        }
        next = part.index + part.samples.len() as u64;
    }
    found
}

/// Checks that each sample has its index, and the frequency of its description in MHz.
fn check_ramp(parts: &[Part<Complex<i16>>]) {
    for part in parts {
        let tuned = (part.stream.center_frequency_hz.unwrap() / 1e6).round() as i16;
        for (index, sample) in (part.index..).zip(&part.samples) {
            assert_eq!(*sample, Complex::new(index as i16, tuned), "sample {index}");
        }
    }
}

/// Ends a source. Returns its read-only properties.
fn end<T: Sample>(run: HarnessRun, output: Subscriber<T>) -> BTreeMap<String, Value> {
    run.stop();
    // The source would wait for room.
    drop(output);
    run.finish_within(Duration::from_secs(20)).unwrap()
}

/// Receives every format as the driver has it.
#[test]
fn samples_arrive_in_the_native_format() {
    let run = |format: &str| {
        receiver("native", "start=5000000000")
            .property("format", format)
            .property("time", "device")
            .start()
            .unwrap()
    };
    let mut source = run("cs16");
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let parts = receive_to(&mut output, 5000);
    check_ramp(&parts);
    assert_eq!(gaps(&parts), []);
    let times = parts.iter().map(|part| part.time_ns - 1000 * part.index as i64);
    assert!(times.into_iter().all(|time| time == 5_000_000_000));
    let stream = &parts[0].stream;
    assert_eq!((stream.sample_rate_hz, stream.center_frequency_hz), (Some(1e6), Some(100e6)));
    assert_eq!(stream.keywords["antenna"], "RX");
    assert_eq!(stream.keywords["gain_db"], 0.0);
    let values = end(source, output);
    assert_eq!(values["actual_frequency"], 100e6.into());
    assert_eq!(values["actual_sample_rate"], 1e6.into());
    assert_eq!(values["actual_gains"], "LNA=0,VGA=0".into());
    assert_eq!(values["sensors"], "ref_locked=false,temperature=41.5".into());

    let mut source = run("cs8");
    let mut output = source.output::<Complex<i8>>("out").unwrap();
    let samples: Vec<_> = receive_to(&mut output, 2000).into_iter().flat_map(|part| part.samples).collect();
    assert!((0..).zip(&samples).all(|(index, sample): (usize, _)| *sample == Complex::new(index as i8, 100)));
    drop(end(source, output));
    let mut source = run("cu8");
    let mut output = source.output::<Complex<u8>>("out").unwrap();
    let samples: Vec<_> = receive_to(&mut output, 2000).into_iter().flat_map(|part| part.samples).collect();
    assert!((0..).zip(&samples).all(|(index, sample): (usize, _)| *sample == Complex::new(index as u8, 100)));
    drop(end(source, output));
    let mut source = run("cf32");
    let mut output = source.output::<Complex<f32>>("out").unwrap();
    let samples: Vec<_> = receive_to(&mut output, 2000).into_iter().flat_map(|part| part.samples).collect();
    assert!(
        (0..).zip(&samples).all(|(index, sample): (usize, _)| *sample == Complex::new(index as f32, 100.0))
    );
    drop(end(source, output));
}

/// Counts each lost sample at its index, with a report of the driver and without one.
#[test]
fn an_overflow_is_a_gap_at_its_place() {
    let mut source = receiver("overflow", "overflow=1500:50+3001:123457,skip=200000:1+300000:70000")
        .property("time", "device")
        .start()
        .unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let parts = receive_to(&mut output, 400_000);
    check_ramp(&parts);
    assert_eq!(gaps(&parts), [(1500, 50), (3001, 123_457), (200_000, 1), (300_000, 70_000)]);
    let first_ns = parts[0].time_ns;
    assert!(parts.iter().all(|part| part.time_ns - first_ns == 1000 * part.index as i64));
    let values = end(source, output);
    assert_eq!((&values["overflows"], &values["missing"]), (&2.into(), &193_508.into()));
    assert_eq!(values["unknown_losses"], 0.into());
}

/// Gives samples without a stamp the device's time, by the stamp before.
#[test]
fn a_stamp_holds_for_the_samples_behind() {
    let arguments = "start=5000000000,sparse=1,overflow=12000:50";
    let mut source = receiver("sparse", arguments).property("time", "device").start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let parts = receive_to(&mut output, 20_000);
    check_ramp(&parts);
    assert_eq!(gaps(&parts), [(12_000, 50)]);
    assert!(parts.iter().all(|part| part.time_ns == 5_000_000_000 + 1000 * part.index as i64));
    drop(end(source, output));
}

/// States the error of the device's clock, while the device is locked to the source of its time.
#[test]
fn the_clock_of_the_device_has_its_error() {
    let stated = |time: &str| {
        let stated = receiver("stated", "").property("clock_error_ns", 250).property("time", time);
        stated.property("time_source", "gps")
    };
    let error = stated("host").start().map(drop).unwrap_err().to_string();
    assert!(error.contains("`clock_error_ns`") && error.contains("set `time` to `device`"), "{error}");
    let (free, gps) = (StreamClock::new(ClockReference::Device), StreamClock::new(ClockReference::Gps));
    for (source, wanted) in [("internal", free), ("external", gps.error_ns(250))] {
        let mut source = stated("device").property("clock_source", source).start().unwrap();
        let mut output = source.output::<Complex<i16>>("out").unwrap();
        assert_eq!(receive_to(&mut output, 1)[0].stream.clock, Some(wanted));
        drop(end(source, output));
    }
}

/// Begins another stream where the number of lost samples is unknown.
#[test]
fn a_loss_without_stamps_begins_a_stream() {
    for (serial, arguments) in [("blind", "stamps=0,overflow=1500:50"), ("back", "back=1500:700")] {
        let mut source = receiver(serial, arguments).start().unwrap();
        let mut output = source.output::<Complex<i16>>("out").unwrap();
        let parts = receive(&mut output, |part| part.stream.id != "component" && part.index >= 1000);
        let (first, second): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|part| part.stream.id == "component");
        check_ramp(&first);
        assert_eq!(first.iter().map(|part| part.samples.len()).sum::<usize>(), 1500);
        assert_eq!(second[0].stream.id, "component-2");
        assert_eq!(second[0].stream.keywords["lost_before"], "unknown");
        assert_eq!(second[0].index, 0);
        assert_eq!(gaps(&second), []);
        assert_eq!(end(source, output)["unknown_losses"], 1.into());
    }
}

/// Labels no sample with a frequency that the sample does not have.
#[test]
fn a_new_frequency_begins_at_its_sample() {
    for (serial, arguments, settle_ms) in [
        ("timed", "timed=1,ahead=3000", 0.0_f64),
        ("slow", "tune=700,ahead=2500", 0.7),
        ("blind", "stamps=0,tune=900", 1.0),
    ] {
        let mut source = receiver(serial, arguments).property("settle_ms", settle_ms).start().unwrap();
        let mut output = source.output::<Complex<i16>>("out").unwrap();
        let mut parts = receive_to(&mut output, 10_000);
        for megahertz in [200, 300, 400] {
            // The source waits for room until packets are taken.
            let tuned = std::thread::scope(|scope| {
                let set = scope.spawn(|| source.set("frequency", f64::from(megahertz) * 1e6));
                let is_new =
                    |part: &Part<_>| part.stream.center_frequency_hz == Some(f64::from(megahertz) * 1e6);
                parts.extend(receive(&mut output, is_new));
                set.join().unwrap()
            });
            tuned.unwrap();
        }
        check_ramp(&parts);
        let lost: u64 = gaps(&parts).iter().map(|gap| gap.1).sum();
        assert_eq!(lost, (3.0 * settle_ms * 1e3).round() as u64, "{serial}");
        let values = end(source, output);
        assert_eq!(values["left_out"], (lost as i64).into());
        assert_eq!((&values["missing"], &values["unknown_losses"]), (&0.into(), &0.into()));
        assert_eq!(values["actual_frequency"], 400e6.into());
    }
}

/// Reports the values that the device has reached, and keeps the old ones if it refuses a new one.
#[test]
fn changes_are_answered_with_the_reached_values() {
    let mut source = receiver("changes", "").start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let parts = std::thread::scope(|scope| {
        // The last change is the rate.
        let parts = scope.spawn(|| receive(&mut output, |part| part.stream.sample_rate_hz == Some(2e6)));
        source.set("gains", "LNA=13,VGA=7.9").unwrap();
        source.set("antenna", "AUX").unwrap();
        source.set("bandwidth", 2e5).unwrap();
        source.set("agc", "on").unwrap();
        source.set("correction", 1.5).unwrap();
        source.set("time_source", "gps").unwrap();
        assert!(source.test("sensors").unwrap().passed);
        source.set("clock_source", "external").unwrap();
        let values = source.values();
        assert_eq!(values["actual_gain"], 18.0.into());
        assert_eq!(values["actual_gains"], "LNA=12,VGA=6".into());
        assert_eq!(values["actual_antenna"], "AUX".into());
        assert_eq!(values["actual_bandwidth"], 2e5.into());
        assert_eq!(values["actual_agc"], "on".into());
        assert_eq!(values["actual_correction"], 1.5.into());
        assert_eq!(values["actual_time_source"], "gps".into());
        assert_eq!(values["actual_clock_source"], "external".into());
        assert_eq!(values["sensors"], "ref_locked=true,temperature=41.5".into());
        let refused = |source: &mut HarnessRun, name: &str, value: Value| {
            source.set(name, value).unwrap_err().to_string()
        };
        assert!(refused(&mut source, "antenna", "TX".into()).contains("the device has RX, AUX"));
        assert!(refused(&mut source, "gains", "MIX=3".into()).contains("the device has LNA, VGA"));
        assert!(refused(&mut source, "gains", "LNA".into()).contains("LNA=20"));
        assert!(refused(&mut source, "frequency", 7e9.into()).contains("beyond 6 GHz"));
        assert_eq!(source.values()["actual_antenna"], "AUX".into());
        source.set("sample_rate", 2_000_400.0).unwrap();
        assert_eq!(source.values()["actual_sample_rate"], 2e6.into());
        parts.join().unwrap()
    });
    check_ramp(&parts);
    assert_eq!(gaps(&parts), []);
    let keywords = &parts.last().unwrap().stream.keywords;
    assert_eq!((&keywords["antenna"], &keywords["gain_db"]), (&"AUX".into(), &18.0.into()));
    assert_eq!(keywords["bandwidth_hz"], 2e5);
    drop(end(source, output));
}

/// Sends two channels in turn, with gaps and descriptions at the same place in both.
#[test]
fn channels_take_turns() {
    let mut source = receiver("two", "channels=2,overflow=1500:50")
        .property("channels", "1,0")
        .property("settle_ms", 0.2)
        .start()
        .unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let mut parts = receive_to(&mut output, 10_000);
    std::thread::scope(|scope| {
        let set = scope.spawn(|| source.set("frequency", 200e6));
        parts.extend(receive(&mut output, |part| part.stream.center_frequency_hz == Some(200e6)));
        set.join().unwrap().unwrap();
    });
    assert_eq!(parts[0].stream.channels, ["1", "0"]);
    assert_eq!(parts[0].stream.sample_rate_hz, Some(2e6));
    for part in &parts {
        let tuned = (part.stream.center_frequency_hz.unwrap() / 1e6) as i16;
        for (index, sample) in (part.index..).zip(&part.samples) {
            let channel = if index % 2 == 0 { 8 } else { 0 };
            assert_eq!(*sample, Complex::new((index / 2) as i16, tuned + channel), "sample {index}");
        }
    }
    let found = gaps(&parts);
    assert_eq!((found[0], found[1].1, found.len()), ((3000, 100), 400, 2));
    drop(end(source, output));
}

/// Resumes in another stream when the device is there again, or ends with the reason.
#[test]
fn a_device_that_vanishes_comes_back_or_ends() {
    let mut source =
        receiver("back-again", "vanish=2500,absent=2").property("reopen_s", 20.0).start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let parts = receive(&mut output, |part| part.stream.id == "component-2");
    let first: usize =
        parts.iter().filter(|part| part.stream.id == "component").map(|part| part.samples.len()).sum();
    assert_eq!(first, 2500);
    check_ramp(&parts);
    let values = end(source, output);
    assert_eq!((&values["reopened"], &values["unknown_losses"]), (&1.into(), &1.into()));
    assert_eq!(values["actual_frequency"], 100e6.into());

    for (serial, arguments, reopen_s, wanted) in [
        ("gone", "vanish=2500,absent=1000000", 0.0, "STREAM_ERROR"),
        ("away", "vanish=2500,absent=1000000", 0.5, "not plugged in"),
        ("broken", "broken=1", 0.0, "CORRUPTION"),
        ("broken-for-ever", "broken=1", 0.5, "CORRUPTION"),
        ("long", "long=1", 0.0, "1001 samples"),
    ] {
        let source = receiver(serial, arguments).property("reopen_s", reopen_s).start().unwrap();
        let error = source.finish_within(Duration::from_secs(20)).unwrap_err().to_string();
        assert!(error.contains(wanted) && error.contains("`reopen_s`"), "{serial}: {error}");
    }
}

/// Refuses what the device does not have, by name.
#[test]
fn a_device_that_does_not_fit_is_refused() {
    let refused = |harness: Harness| match harness.start() {
        Ok(run) => run.finish_within(Duration::from_secs(20)).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    let error = refused(receiver("claims", "claims=1").property("format", "cs8"));
    assert!(error.contains("no stream of CS8") && error.contains("its native one is CS16"), "{error}");
    let error = refused(receiver("channel", "").property("channels", "1"));
    assert!(error.contains("there is no channel 1"), "{error}");
    for wrong in ["", "0,0", "a", "-1", "1000000"] {
        let error = refused(receiver("channel", "").property("channels", wrong));
        assert!(error.contains("`channels`"), "{error}");
    }
    let error = refused(Harness::of::<SoapySource>().property("device", "driver=none"));
    assert!(error.contains("`stripline devices`"), "{error}");
}

/// Refuses a second component for the same channel, until the first one has ended.
#[test]
fn a_device_is_used_once() {
    let mut source = receiver("once", "channels=2").start().unwrap();
    let output = source.output::<Complex<i16>>("out").unwrap();
    let error = receiver("once", "channels=2").property("channels", "1,0").start().map(drop).unwrap_err();
    assert!(error.to_string().contains("another component of this process uses channel 0"), "{error}");
    let other = Harness::of::<SoapySource>().property("device", "channels=2,serial=once,driver=ramp,");
    let error = other.property("tuner", "").start().map(drop).unwrap_err();
    assert!(error.to_string().contains("another component of this process uses channel 0"), "{error}");
    let sink = ramp::<SoapySink>("once", "channels=2").payload("in", &TypeName::of::<Complex<i16>>());
    let mut sink = sink.start().unwrap();
    send(&mut sink, &[(0, 10)]);
    sink.finish_within(Duration::from_secs(20)).unwrap();
    drop(end(source, output));
    let mut source = receiver("once", "channels=2").start().unwrap();
    let output = source.output::<Complex<i16>>("out").unwrap();
    drop(end(source, output));
}

/// Ends a source at a stop, also if the driver does not return from a read.
#[test]
fn a_driver_that_hangs_does_not_hang_the_source() {
    let mut source = receiver("hang", "hang=2500").start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    check_ramp(&receive_to(&mut output, 2500));
    source.stop();
    let error = source.finish_within(Duration::from_secs(20)).unwrap_err().to_string();
    assert!(error.contains("has not returned from a call"), "{error}");
    // The stream is never closed.
    let mut source = receiver("stuck", "stuck=1").start().unwrap();
    let output = source.output::<Complex<i16>>("out").unwrap();
    source.stop();
    drop(output);
    let error = source.finish_within(Duration::from_secs(40)).unwrap_err().to_string();
    assert!(error.contains("has not returned from a call"), "{error}");
    // Waits between samples end with a stop.
    let mut source = receiver("silent", "ends=2500").start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    check_ramp(&receive_to(&mut output, 2500));
    drop(end(source, output));
}

/// Reads what the device has transmitted: for each write the time, whether a burst ends, and the
/// samples.
fn transmitted(path: &Path) -> Vec<(Option<i64>, bool, Vec<i16>)> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        (
            words[1].parse().ok(),
            words[2] == "end",
            words[3..].iter().map(|word| word.parse().unwrap()).collect(),
        )
    };
    text.lines().map(line).collect()
}

/// Sends packets of a ramp: index and length of each.
fn send(run: &mut HarnessRun, packets: &[(u64, u64)]) {
    let mut input = run.input::<Complex<i16>>("in").unwrap();
    input.set_stream(StreamInfo::new("ramp").sample_rate_hz(1e6));
    for (index, count) in packets {
        let mut loan = input.loan(*count as usize).unwrap();
        for (sample, value) in loan.iter_mut().zip(*index..) {
            *sample = Complex::new(value as i16, 0);
        }
        loan.at_sample(*index).at_time_ns(1000 * *index as i64).send().unwrap();
    }
    input.finish().unwrap();
}

/// Transmits each sample once, from gap to gap in a burst with its time and end.
#[test]
fn bursts_have_their_time_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let packets = [(0, 1500), (1500, 1), (1501, 2), (5000, 10), (5010, 90)];
    let ramp_of = |packets: &[(u64, u64)]| -> Vec<i16> {
        packets.iter().flat_map(|(index, count)| *index..index + count).map(|value| value as i16).collect()
    };
    for (bursts, wanted) in
        [("stream", vec![&packets[..3], &packets[3..]]), ("packet", packets.chunks(1).collect())]
    {
        let path = folder.path().join(bursts);
        let mut sink = ramp::<SoapySink>(bursts, &format!("record={}", path.display()))
            .payload("in", &TypeName::of::<Complex<i16>>())
            .property("bursts", bursts)
            .property("time", "device")
            .property("delay_ms", 2.0)
            .start()
            .unwrap();
        send(&mut sink, &packets);
        let values = sink.finish_within(Duration::from_secs(20)).unwrap();
        assert_eq!(
            (&values["sent"], &values["late"], &values["underflows"]),
            (&1603.into(), &0.into(), &0.into())
        );
        assert_eq!(values["bursts_sent"], (wanted.len() as i64).into());
        let writes = transmitted(&path);
        let mut found = writes.split_inclusive(|write| write.1);
        for burst in wanted {
            let writes = found.next().unwrap();
            let samples: Vec<i16> = writes.iter().flat_map(|write| write.2.clone()).collect();
            assert_eq!(samples, ramp_of(burst), "{bursts}");
            assert_eq!(writes[0].0, Some(1000 * burst[0].0 as i64 + 2_000_000));
            assert!(writes[1..].iter().all(|write| write.0.is_none()) && writes.last().unwrap().1);
        }
        assert!(found.next().is_none());
    }
}

/// Counts late bursts and underflows that the driver reports.
#[test]
fn late_bursts_and_underflows_are_counted() {
    let mut sink = ramp::<SoapySink>("late", "late=1,underflow=1200,start=100000")
        .payload("in", &TypeName::of::<Complex<i16>>())
        .property("time", "device")
        .start()
        .unwrap();
    send(&mut sink, &[(0, 1000), (50, 10), (200, 500)]);
    let values = sink.finish_within(Duration::from_secs(20)).unwrap();
    assert_eq!((&values["late"], &values["underflows"]), (&2.into(), &1.into()));
    assert_eq!((&values["bursts_sent"], &values["faults"]), (&3.into(), &0.into()));
    assert_eq!(values["actual_sample_rate"], 1e6.into());
}

/// Splits the channels of a stream, and refuses another number of channels.
#[test]
fn a_sink_takes_the_channels_of_a_stream() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("two");
    let mut sink = ramp::<SoapySink>("tx-two", &format!("channels=2,record={}", path.display()))
        .payload("in", &TypeName::of::<Complex<i16>>())
        .property("channels", "0,1")
        .start()
        .unwrap();
    let mut input = sink.input::<Complex<i16>>("in").unwrap();
    input.set_stream(StreamInfo::new("two").sample_rate_hz(2e6).channels(["a", "b"]));
    let samples = [1, -1, 2, -2, 3, -3].map(|value| Complex::new(value, 0));
    input.send(&samples[..4]).unwrap();
    input.send(&samples[4..]).unwrap();
    input.finish().unwrap();
    sink.finish_within(Duration::from_secs(20)).unwrap();
    let writes: Vec<_> = transmitted(&path).into_iter().map(|write| (write.1, write.2)).collect();
    assert_eq!(writes, [(false, vec![1, -1]), (false, vec![2, -2]), (true, vec![3, -3])]);

    let mut sink =
        ramp::<SoapySink>("tx-one", "").payload("in", &TypeName::of::<Complex<i16>>()).start().unwrap();
    let mut input = sink.input::<Complex<i16>>("in").unwrap();
    input.set_stream(StreamInfo::new("two").sample_rate_hz(2e6).channels(["a", "b"]));
    input.send(&samples[..4]).unwrap();
    let error = sink.finish_within(Duration::from_secs(20)).unwrap_err().to_string();
    assert!(error.contains("2 channels") && error.contains("`channels`"), "{error}");
}

/// Finds the device, and opens it by the name that was found.
#[test]
fn a_device_is_found_by_its_name() {
    load();
    let list = stripline_radio::find_devices("driver=ramp,serial=found").unwrap();
    let [device] = &list.devices[..] else { panic!("{list:?}") };
    assert_eq!((&*device.driver, &*device.label), ("ramp", "Ramp of the tests"));
    assert_eq!(device.name, "driver=ramp,serial=found");
    assert!(list.library.starts_with("SoapySDR 0."));
    let mut source =
        Harness::of::<SoapySource>().property("device", &*device.name).property("tuner", "").start().unwrap();
    let output = source.output::<Complex<i16>>("out").unwrap();
    assert_eq!(end(source, output)["actual_antenna"], "RX".into());
}

/// Tunes a running source by the service, also at a time.
#[test]
fn a_client_tunes_the_source() {
    let service = format!("tuner-{}", std::process::id());
    let mut source = receiver("tuned", "timed=1,ahead=3000")
        .property("tuner", &*service)
        .property("sample_rate", 1e5)
        .property("time", "device")
        .start()
        .unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let node = Node::new().unwrap();
    let (ended, end_of_calls) = std::sync::mpsc::channel();
    let mut parts = receive_to(&mut output, 1000);
    let asked_ns = std::thread::scope(|scope| {
        let calls = scope.spawn(|| {
            let tuner = TunerClient::connect(&node, &service, ClientOptions::default()).unwrap();
            assert_eq!(tuner.frequency().unwrap(), 100e6);
            assert_eq!(tuner.set_frequency(200.000_4e6, None).unwrap(), 200e6);
            assert_eq!(tuner.set_stage_gain("LNA".into(), 13.0, None).unwrap(), 12.0);
            assert_eq!(tuner.set_antenna("AUX".into(), None).unwrap(), "AUX");
            assert!(tuner.set_automatic_gain(true, None).unwrap());
            assert_eq!(tuner.set_gain(20.0, None).unwrap(), 20.0);
            assert!(!tuner.automatic_gain().unwrap());
            let abilities = tuner.abilities().unwrap();
            assert_eq!((abilities.is_timed, abilities.stages.len()), (true, 2));
            assert!(tuner.set_antenna("TX".into(), None).unwrap_err().to_string().contains("RX, AUX"));
            assert!(tuner.set_frequency(9e9, None).unwrap_err().to_string().contains("0 to 6000000000 Hz"));
            let late = tuner.set_frequency(300e6, Some(1)).unwrap_err();
            assert!(matches!(late, CallError::User(TunerError::Late { .. })), "{late}");
            let CallError::User(TunerError::Late { now_ns, .. }) = late else { panic!("{late}") };
            // The device's time goes on with the samples that this test takes.
            let at_ns = now_ns + 60_000_000_000;
            assert_eq!(tuner.set_frequency(300e6, Some(at_ns)).unwrap(), 300e6);
            ended.send(()).unwrap();
            at_ns
        });
        parts.extend(receive(&mut output, |_| end_of_calls.try_recv().is_ok()));
        calls.join().unwrap()
    });
    // The samples up to that time are not all checked.
    loop {
        let part = receive(&mut output, |_| true).pop().unwrap();
        if part.stream.center_frequency_hz == Some(300e6) {
            parts.push(part);
            break;
        }
    }
    check_ramp(&parts);
    assert_eq!(parts.last().unwrap().time_ns, (asked_ns + 9_999) / 10_000 * 10_000);
    assert_eq!(parts[0].stream.clock.unwrap().reference, ClockReference::Device);
    drop(end(source, output));
}

/// Receives the same samples as GNU Radio's source, with the same losses at the same samples.
#[test]
fn gnu_radio_plays_the_same_device() {
    let python = "/usr/bin/python3";
    let has = Command::new(python).args(["-c", "from gnuradio import soapy"]).output();
    if !has.is_ok_and(|has| has.status.success()) {
        println!("NOT RUN: GNU Radio with SoapySDR is missing (Debian: gnuradio-dev)");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    build(folder.path());
    // The stamps begin at a second, so that the tags are exact.
    let device = "driver=ramp,serial=gnu-radio,overflow=15000:5000+30000:7";
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/soapy_gnuradio.py");
    let mut command = Command::new(python);
    command.env("SOAPY_SDR_PLUGIN_PATH", folder.path()).arg(script).args([device, "40000"]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let theirs: serde_json::Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();

    let mut source = receiver("gnu-radio", "overflow=15000:5000+30000:7").start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let parts = receive_to(&mut output, 45_007);
    drop(end(source, output));
    let samples: Vec<i16> =
        parts.iter().flat_map(|part| &part.samples).flat_map(|sample| [sample.re, sample.im]).collect();
    let their_samples: Vec<i16> = serde_json::from_value(theirs["samples"].clone()).unwrap();
    assert_eq!(their_samples.len(), 80_000);
    assert!(samples[..80_000] == their_samples, "other samples");
    // A tag has the time behind each loss.
    let times: Vec<(u64, u64, f64)> = serde_json::from_value(theirs["times"].clone()).unwrap();
    let indexes =
        times.iter().map(|(_, seconds, part)| ((*seconds as f64 - 1.0 + part) * 1e6).round() as u64);
    let their_gaps: Vec<_> =
        indexes.zip(&times).map(|(index, (offset, ..))| (*offset, index - offset)).collect();
    let mut missing = 0;
    let ours: Vec<_> = gaps(&parts)
        .into_iter()
        .map(|(index, count)| {
            let offset = index - missing;
            missing += count;
            (offset, missing)
        })
        .collect();
    assert_eq!((&their_gaps[0], &their_gaps[1..]), (&(0, 0), &ours[..]));
}
