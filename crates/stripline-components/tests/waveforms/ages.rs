//! Waveforms with samples that have a time.

use std::time::{Duration, SystemTime};

use stripline::component::{Component, ComponentSpec, PortTypes, Ports, Properties};
use stripline::{ClockReference, Result, StreamClock, StreamInfo};

use super::bench::Bench;

/// The delay that `Aging` adds.
const DELAY: Duration = Duration::from_secs(60);
const PACKETS: usize = 50;

/// A source of samples that were taken just now.
pub struct Stamping;

impl Component for Stamping {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("stamping", "Sends new samples.").output("out", PortTypes::of::<f32>(), "samples")
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let mut output = ports.output::<f32>("out")?;
        let clock = StreamClock::new(ClockReference::Gps).error_ns(100);
        output.set_stream(StreamInfo::new("antenna").sample_rate_hz(1e3).clock(clock));
        for _ in 0..PACKETS {
            let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            output.loan(10)?.at_time_ns(now.as_nanos() as i64).send()?;
        }
        Ok(())
    }
}

/// A component that makes samples a minute older.
pub struct Aging;

impl Component for Aging {
    fn describe() -> ComponentSpec {
        ComponentSpec::new("aging", "Makes samples older.")
            .input("in", PortTypes::of::<f32>(), "samples")
            .output("out", PortTypes::of::<f32>(), "older samples")
    }

    fn new(_: &Properties) -> Result<Self> {
        Ok(Self)
    }

    fn run(self, mut ports: Ports) -> Result<()> {
        let (mut input, mut output) = (ports.input::<f32>("in")?, ports.output::<f32>("out")?);
        while let Some(packet) = input.receive()? {
            output.loan(packet.len())?.send_like_delayed(&packet, DELAY)?;
        }
        Ok(())
    }
}

pub fn a_planted_delay_is_named_at_its_place() {
    let text = r#"
        [component]
        source = { type = "stamping" }
        first = { type = "throttle", properties = { rate = 1e9 } }
        slow = { type = "aging" }
        last = { type = "throttle", properties = { rate = 1e9 } }
        sink = { type = "null-sink" }
        [[connection]]
        from = "source"
        to = "first"
        [[connection]]
        from = "first"
        to = "slow"
        [[connection]]
        from = "slow"
        to = "last"
        [[connection]]
        from = "last"
        to = "sink"
        age-limit-ms = 30_000
        "#;
    for transport in ["shm", "uds", "tcp"] {
        let outcome = Bench::new().text(text).transport(transport).run();
        let warning = "sink: the samples over `last.out -> sink.in` are 60.";
        let outcome = outcome.logged(warning).logged("± 100 ns old, above age-limit-ms = 30000; 60.");
        let outcome = outcome.logged(" of it between `slow.in` and `last.in`: in `slow`, or in the queue");
        let report = outcome.ended();
        let ages: Vec<_> = report.connections.iter().map(|it| it.age.unwrap()).collect();
        for (ages, is_old) in ages.iter().zip([false, false, true, true]) {
            assert_eq!((ages.samples, ages.clock.unwrap().error_ns), (PACKETS as u64, Some(100)), "{ages:?}");
            assert_eq!(ages.last_ns >= DELAY.as_nanos() as i64, is_old, "{ages:?}");
            assert!(ages.max_ns >= ages.last_ns, "{ages:?}");
        }
    }
}
