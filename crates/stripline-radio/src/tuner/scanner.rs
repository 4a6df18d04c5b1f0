//! `scanner`: steps a receiver through frequencies, and measures the power at each.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use stripline::call::{CallError, CallOptions, ClientOptions};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, OrderRule, PortTypes, Ports, Properties, PropertySpec,
    RateRule,
};
use stripline::node::Node;
use stripline::payload::{Cbor, TypeName};
use stripline::{Complex, Error, Input, Packet, Received, Result, Sample, StreamInfo};

use super::{TunerClient, TunerService};
use crate::samples::{Number, check_one_channel, complex_types};

/// The most frequencies of a sweep.
const STEPS_MAX: usize = 100_000;

/// The largest difference between a reached frequency and its description, in Hz.
const FREQUENCY_ERROR_HZ: f64 = 0.5;

/// The power of silence, in dB.
const SILENCE_DB: f64 = -300.0;

/// The result for one frequency. The time of the message is the time of the first measured sample.
///
/// ```
/// let step = stripline_radio::tuner::ScanStep { frequency_hz: 433.92e6, power_db: -42.0, samples: 4096 };
/// assert_eq!(serde_json::to_value(&step).unwrap()["samples"], 4096);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, stripline::Message)]
pub struct ScanStep {
    /// The centre frequency that the receiver has reached.
    pub frequency_hz: f64,
    /// The mean power of the samples, relative to full scale; of silence, -300.
    pub power_db: f64,
    /// The number of measured samples.
    pub samples: u64,
}

/// The component `scanner`.
pub struct Scanner {
    frequencies_hz: Vec<f64>,
    properties: Properties,
}

impl Component for Scanner {
    fn describe() -> ComponentSpec {
        let hertz = |name, default, min, summary| {
            PropertySpec::float(name, default, summary).range(min, 1e12).unit("Hz")
        };
        let list = "centre frequencies in Hz, as `98e6, 101.3e6`; empty: `first` to `last`";
        ComponentSpec::new("scanner", "Steps a receiver through frequencies, and measures the power at each.")
            .input("in", complex_types(), "samples of the receiver")
            .output("out", PortTypes::of::<Cbor<ScanStep>>(), "a result for each step")
            .sample_rate(RateRule::input("in").needed())
            .sample_order(OrderRule { takes_channels: false, ..OrderRule::default() })
            .property(PropertySpec::text(
                "tuner",
                TunerService::NAME,
                "name of the service that tunes the receiver",
            ))
            .property(PropertySpec::text("frequencies", "", list))
            .property(hertz("first", 88e6, 0.0, "first centre frequency"))
            .property(hertz("last", 108e6, 0.0, "last centre frequency, or the end of the last step"))
            .property(hertz("step", 1e6, 1.0, "from one centre frequency to the next"))
            .property(milliseconds("dwell_ms", 10.0, 1e-3, "measured samples of each step"))
            .property(milliseconds(
                "settle_ms",
                0.0,
                0.0,
                "samples left out before, for the receiver's filters",
            ))
            .property(PropertySpec::integer("sweeps", 1, 0, i64::MAX, "sweeps; 0: until the stream ends"))
            .property(
                PropertySpec::float("timeout_s", 5.0, "longest wait for the tuner, and then for its samples")
                    .range(0.01, 3600.0)
                    .unit("s"),
            )
            .validated(|properties| frequencies_hz(properties).map(drop))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { frequencies_hz: frequencies_hz(properties)?, properties: properties.clone() })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cu8", TypeName::as_str) {
            "cu8" => self.run_as::<u8>(ports),
            "cs8" => self.run_as::<i8>(ports),
            "cs16" => self.run_as::<i16>(ports),
            _ => self.run_as::<f32>(ports),
        }
    }
}

fn milliseconds(name: &str, default: f64, min: f64, summary: &str) -> PropertySpec {
    PropertySpec::float(name, default, summary).range(min, 3.6e6).unit("ms")
}

/// Returns the frequencies of a sweep.
fn frequencies_hz(properties: &Properties) -> Result<Vec<f64>> {
    let refused = |property: &str, problem: String, remedy: &str| {
        Err(InvalidProperties::new(problem).property(property).remedy(remedy).into())
    };
    let text = properties.text("frequencies");
    if !text.trim().is_empty() {
        let parsed = text.split(',').take(STEPS_MAX + 1).map(|hz| (hz, hz.trim().parse::<f64>()));
        let mut found = Vec::new();
        for (text, hz) in parsed {
            match hz {
                Ok(hz) if (0.0..=1e12).contains(&hz) => found.push(hz),
                _ => {
                    let problem = format!("`frequencies` has `{}`, which is no frequency", text.trim());
                    return refused("frequencies", problem, "name frequencies from 0 to 1e12 Hz, as `98e6`");
                }
            }
        }
        return match found.len() > STEPS_MAX {
            true => {
                refused("frequencies", format!("`frequencies` has more than {STEPS_MAX}"), "leave some out")
            }
            false => Ok(found),
        };
    }
    let [first, last, step] = ["first", "last", "step"].map(|name| properties.float(name));
    let steps = ((last - first) / step + 1e-9).floor();
    if steps < 0.0 {
        return refused("last", format!("`last` is {last} Hz, below `first`, {first} Hz"), "exchange them");
    }
    if steps >= STEPS_MAX as f64 {
        let problem = format!("`step` makes {} steps, at most {STEPS_MAX}", steps + 1.0);
        return refused("step", problem, "set a larger `step`");
    }
    Ok((0..=steps as u32).map(|index| first + step * f64::from(index)).collect())
}

impl Scanner {
    fn run_as<T: Number>(self, mut ports: Ports) -> Result<()>
    where
        Complex<T>: Sample,
    {
        let Self { frequencies_hz, properties } = self;
        let mut input = ports.input::<Complex<T>>("in")?;
        let mut output = ports.output::<Cbor<ScanStep>>("out")?;
        let timeout_s = properties.float("timeout_s");
        let node = Node::new()?;
        let tuner = TunerClient::connect(&node, properties.text("tuner"), ClientOptions::default())?;
        let tuner = tuner.with(CallOptions::deadline(Duration::from_secs_f64(timeout_s)));
        let times = StepTimes {
            settle_s: properties.float("settle_ms") / 1e3,
            dwell_s: properties.float("dwell_ms") / 1e3,
            timeout_s,
        };
        let mut clock = None;
        let sweeps = properties.count("sweeps");
        let mut sweep = 0;
        while sweeps == 0 || sweep < sweeps {
            for frequency_hz in &frequencies_hz {
                let reached_hz = match tuner.set_frequency(*frequency_hz, None) {
                    Ok(reached_hz) => reached_hz,
                    // A receiver that ends leaves its service, with or without this call.
                    Err(CallError::ServerGone { .. }) if times.ends(&mut input)? => return Ok(()),
                    Err(CallError::NoServer { .. }) if clock.is_some() && times.ends(&mut input)? => {
                        return Ok(());
                    }
                    Err(error) => return Err(Error::failed(error)),
                };
                let Some(measured) = times.measure(&mut input, reached_hz)? else { return Ok(()) };
                if clock != Some(measured.stream.clock) {
                    clock = Some(measured.stream.clock);
                    output.set_stream(StreamInfo {
                        clock: measured.stream.clock,
                        ..StreamInfo::new(ports.component())
                    });
                }
                output.loan_copy_of(&measured.step(reached_hz))?.at_time_ns(measured.time_ns).send()?;
            }
            sweep += 1;
        }
        Ok(())
    }
}

/// The times of a step, in seconds of the stream.
struct StepTimes {
    settle_s: f64,
    dwell_s: f64,
    timeout_s: f64,
}

/// The samples of a step so far.
struct Measured {
    /// Samples to leave out, and then to measure.
    left_out: usize,
    wanted: u64,
    samples: u64,
    power: f64,
    time_ns: i64,
    stream: Arc<StreamInfo>,
}

impl StepTimes {
    /// Returns whether the stream ends within the timeout, in real time and in time of the stream.
    /// The last samples belong to no step.
    fn ends<T: Number>(&self, input: &mut Input<Complex<T>>) -> Result<bool>
    where
        Complex<T>: Sample,
    {
        let until = Instant::now() + Duration::from_secs_f64(self.timeout_s);
        let mut rest_s = 0.0;
        while rest_s <= self.timeout_s {
            match input.receive_timeout(until.saturating_duration_since(Instant::now()))? {
                Received::Ended => return Ok(true),
                Received::Packet(packet) => {
                    let Some(rate_hz) = packet.stream().sample_rate_hz else { return Ok(false) };
                    rest_s += packet.len() as f64 / rate_hz;
                }
                Received::Empty => return Ok(false),
            }
        }
        Ok(false)
    }

    /// Measures the first samples that the stream describes with a frequency; `None`: the stream
    /// has ended.
    fn measure<T: Number>(&self, input: &mut Input<Complex<T>>, frequency_hz: f64) -> Result<Option<Measured>>
    where
        Complex<T>: Sample,
    {
        let (mut measured, mut waited_s): (Option<Measured>, f64) = (None, 0.0);
        while let Some(packet) = input.receive()? {
            let stream = packet.stream();
            check_one_channel(stream, "a scan")?;
            let Some(rate_hz) = stream.sample_rate_hz else {
                return Err(Error::failed(format!(
                    "the stream `{}` has no sample rate, which gives the length of a step",
                    stream.id
                )));
            };
            let found_hz = stream.center_frequency_hz;
            if !found_hz.is_some_and(|hz| (hz - frequency_hz).abs() <= FREQUENCY_ERROR_HZ) {
                // Samples from before the step, or another client has tuned the receiver.
                measured = None;
                waited_s += packet.len() as f64 / rate_hz;
                if waited_s > self.timeout_s {
                    let found = found_hz.map_or("no frequency".into(), |hz| format!("{hz} Hz"));
                    return Err(Error::failed(format!(
                        "the tuner has reached {frequency_hz} Hz, and {waited_s:.3} s of the stream later it \
                         has {found}: is `tuner` the service of this receiver, and the only client this scan?"
                    )));
                }
                continue;
            }
            let samples = |seconds: f64| (seconds * rate_hz).round();
            let step = measured.get_or_insert_with(|| Measured {
                left_out: samples(self.settle_s) as usize,
                wanted: samples(self.dwell_s).max(1.0) as u64,
                samples: 0,
                power: 0.0,
                time_ns: 0,
                stream: Arc::clone(stream),
            });
            if step.take(&packet, rate_hz) {
                return Ok(measured);
            }
        }
        Ok(None)
    }
}

impl Measured {
    /// Adds the samples of a packet. Returns whether the step is complete.
    fn take<T: Number>(&mut self, packet: &Packet<'_, Complex<T>>, rate_hz: f64) -> bool
    where
        Complex<T>: Sample,
    {
        let from = self.left_out.min(packet.len());
        self.left_out -= from;
        let missing = usize::try_from(self.wanted - self.samples).unwrap_or(usize::MAX);
        let part = &packet[from..];
        let part = &part[..part.len().min(missing)];
        if self.samples == 0 && !part.is_empty() && packet.time_ns() != 0 {
            self.time_ns = packet.time_ns().saturating_add((from as f64 * 1e9 / rate_hz).round() as i64);
        }
        let square = |number: T| f64::from(number.to_f32()).powi(2);
        self.power += part.iter().map(|sample| square(sample.re) + square(sample.im)).sum::<f64>();
        self.samples += part.len() as u64;
        self.samples >= self.wanted
    }

    /// Returns the result of a complete step.
    fn step(&self, frequency_hz: f64) -> ScanStep {
        let power_db = 10.0 * (self.power / self.samples as f64).log10();
        let power_db = power_db.clamp(SILENCE_DB, f64::INFINITY);
        ScanStep { frequency_hz, power_db, samples: self.samples }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::{Sender, channel};

    use stripline::call::ServerOptions;
    use stripline::component::Value;
    use stripline::component::harness::Harness;
    use stripline::{ClockReference, StreamClock};

    use super::super::{OfferedTuner, Tuner, TunerAbilities, TunerError};
    use super::*;

    /// A tuner in steps of 25 kHz that reports each request to the test.
    struct Reporting(Mutex<Sender<f64>>);

    impl Tuner for Reporting {
        fn frequency(&self) -> std::result::Result<f64, TunerError> {
            Ok(0.0)
        }

        fn set_frequency(&self, hz: f64, _: Option<i64>) -> std::result::Result<f64, TunerError> {
            let reached_hz = (hz / 25e3).round() * 25e3;
            self.0.lock().unwrap().send(reached_hz).unwrap();
            Ok(reached_hz)
        }

        fn rate(&self) -> std::result::Result<f64, TunerError> {
            Ok(1e3)
        }

        fn abilities(&self) -> std::result::Result<TunerAbilities, TunerError> {
            Ok(TunerAbilities::default())
        }
    }

    /// Tunes while samples of the frequency before are in the queue, and measures none of them.
    #[test]
    fn no_sample_counts_for_another_frequency() {
        let (sender, tuned) = channel();
        let service = format!("scanned-{}", std::process::id());
        let node = Arc::new(Node::new().unwrap());
        let _offered =
            OfferedTuner::in_node(node, &service, "receiver", Reporting(Mutex::new(sender))).unwrap();
        let mut run = Harness::of::<Scanner>()
            .property("tuner", service.as_str())
            .property("frequencies", "100e6, 200.01e6,100e6")
            .property("dwell_ms", 6.0)
            .property("settle_ms", 3.0)
            .payload("in", &TypeName::of::<Complex<f32>>())
            .start()
            .unwrap();
        let mut input = run.input::<Complex<f32>>("in").unwrap();
        let mut output = run.output::<Cbor<ScanStep>>("out").unwrap();
        let clock = StreamClock::new(ClockReference::Host);
        let mut index = 0;
        let mut send = |hz: f64, level: f32, packets: usize| {
            input.set_stream(
                StreamInfo::new("receiver").sample_rate_hz(1e3).center_frequency_hz(hz).clock(clock),
            );
            for _ in 0..packets {
                let mut loan = input.loan(4).unwrap();
                loan.fill(Complex::new(level, 0.0));
                loan.at_sample(index).at_time_ns(1 + index as i64 * 1_000_000).send().unwrap();
                index += 4;
            }
        };
        // The scanner waits for each request's samples, so the levels of other requests are stale.
        send(50e6, 1.0, 3);
        for (hz, level, first) in [(100e6, 0.1, 12), (200e6, 0.01, 36), (100e6, 0.001, 60)] {
            assert_eq!(tuned.recv().unwrap(), hz);
            // The third packet ends the step. The fourth one comes before the next request takes
            // effect.
            send(hz, level, 6);
            let packet = output.receive().unwrap().unwrap();
            let about = (packet.time_ns(), packet.stream().clock);
            let step = packet.decode().unwrap();
            assert_eq!((step.frequency_hz, step.samples), (hz, 6));
            assert!((step.power_db - 20.0 * f64::from(level).log10()).abs() < 1e-3, "{step:?}");
            assert_eq!(about, (1 + (first + 3) * 1_000_000, Some(clock)));
        }
        assert!(output.receive().unwrap().is_none());
        run.finish().unwrap();
    }

    /// Ends with an error if the stream never has the frequency that the tuner has reached.
    #[test]
    fn the_tuner_of_another_receiver_is_named() {
        let (sender, _tuned) = channel();
        let service = format!("scanned-elsewhere-{}", std::process::id());
        let node = Arc::new(Node::new().unwrap());
        let _offered =
            OfferedTuner::in_node(node, &service, "receiver", Reporting(Mutex::new(sender))).unwrap();
        let run = Harness::of::<Scanner>().property("tuner", service.as_str());
        let mut run = run.payload("in", &TypeName::of::<Complex<u8>>()).start().unwrap();
        let mut input = run.input::<Complex<u8>>("in").unwrap();
        input.set_stream(StreamInfo::new("other").sample_rate_hz(1e3).center_frequency_hz(1e6));
        // The scanner leaves after five seconds of the stream.
        while input.send(&[Complex::new(0, 0); 500]).is_ok() && input.receivers() > 0 {}
        let error = run.finish().unwrap_err().to_string();
        let words = "the tuner has reached 88000000 Hz, and 5.500 s of the stream later it has 1000000 Hz";
        assert!(error.contains(words), "{error}");
    }

    /// Ends with the stream when the service leaves during a request, and fails if the stream goes
    /// on.
    #[test]
    fn a_receiver_that_ends_is_no_error() {
        for ends in [true, false] {
            let node = Node::new().unwrap();
            let service = format!("scanned-until-{ends}-{}", std::process::id());
            let tuner = TunerService::named(&service, Reporting(Mutex::new(channel().0))).unwrap();
            let mut server = node.service_server(tuner, ServerOptions::default()).unwrap();
            let run = Harness::of::<Scanner>().property("tuner", service.as_str());
            let mut run = run.payload("in", &TypeName::of::<Complex<u8>>()).start().unwrap();
            let mut input = run.input::<Complex<u8>>("in").unwrap();
            input.set_stream(StreamInfo::new("receiver").sample_rate_hz(1e3));
            // Long enough for any machine: it only ends a hang.
            assert!(server.wait_for_call(Duration::from_secs(60)).unwrap());
            drop(server);
            if ends {
                input.send(&[Complex::new(0, 0); 500]).unwrap();
                drop(input);
                run.finish().unwrap();
            } else {
                // The scanner leaves after five seconds of the stream.
                while input.send(&[Complex::new(0, 0); 500]).is_ok() && input.receivers() > 0 {}
                let error = run.finish().unwrap_err().to_string();
                assert!(error.contains("the server is gone"), "{error}");
            }
        }
    }

    /// Checks the frequencies before the start.
    #[test]
    fn frequencies_are_checked() {
        let found = |given: &[(&str, Value)]| {
            let given = given.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
            let properties = Properties::new(&Scanner::describe(), given).unwrap();
            frequencies_hz(&properties).map_err(|error| error.to_string())
        };
        assert_eq!(found(&[]).unwrap().len(), 21);
        // The sum of rounded steps reaches the last frequency.
        let thirds = [("last", Value::Float(98e6)), ("step", Value::Float(1e7 / 3.0))];
        assert_eq!(found(&thirds).unwrap().len(), 4);
        assert_eq!(found(&[("frequencies", Value::Text("98e6 , 1.5".into()))]).unwrap(), [98e6, 1.5]);
        for (given, problem) in [
            (&[("frequencies", Value::Text("98e6,,1".into()))][..], "`frequencies` has ``"),
            (&[("frequencies", Value::Text("nan".into()))], "has `nan`"),
            (&[("last", Value::Float(1.0))], "below `first`"),
            (&[("step", Value::Float(1.0))], "makes 20000001 steps"),
        ] {
            let error = found(given).unwrap_err();
            assert!(error.contains(problem), "{error}");
        }
    }
}
