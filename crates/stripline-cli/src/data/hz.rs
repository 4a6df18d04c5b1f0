//! `stripline hz`: rates and intervals of packets.

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::arguments::HzArguments;
use super::source::{POLL_TIME, Poll, Source};
use super::{Interrupt, write_out};
use crate::Exit;
use crate::failure::{Failure, Outcome};
use crate::format::{counted, printable, quantity, time};

/// The interval between two lines.
const LINE_TIME: Duration = Duration::from_secs(1);

pub(crate) fn hz(arguments: &HzArguments) -> Outcome {
    let interrupt = Interrupt::catch()?;
    let Some(mut source) = Source::open(&arguments.source, &interrupt)? else { return Ok(Exit::Clean) };
    report!("{}: {}; Ctrl-C ends it", printable(&source.name, super::TEXT_MAX), source.payload);
    let in_place = !arguments.json && std::io::stdout().is_terminal();
    let (sample, mut exit) = (source.sample_bytes(), Exit::Clean);
    let (mut total, mut last) = (Totals::default(), Totals::default());
    let mut intervals = Intervals::default();
    let (mut since, mut is_over, mut has_ended) = (Instant::now(), false, false);
    let end = arguments.duration.map(|seconds| since + Duration::from_secs_f64(seconds));
    while !is_over && !interrupt.is_set() {
        let next = end.map_or(since + LINE_TIME, |end| end.min(since + LINE_TIME));
        let wait = POLL_TIME.min(next.saturating_duration_since(Instant::now()));
        let polled = source.poll(wait, |packet| {
            intervals.add(Instant::now());
            total.packets += 1;
            total.bytes += packet.len() as u64;
            total.gaps += u64::from(packet.gap().is_some());
            total.missing += packet.gap().map_or(0, |gap| gap.packets);
        });
        match polled {
            Ok(Poll::Packet | Poll::Empty) => {}
            Ok(Poll::Restarted) => report!("the sender was started again"),
            Ok(Poll::Ended) => {
                total.missing += source.gap_at_end().map_or(0, |gap| gap.packets);
                (is_over, has_ended) = (true, true);
            }
            Err(error) => {
                exit = Failure::new(error).report();
                is_over = true;
            }
        }
        is_over |= end.is_some_and(|end| Instant::now() >= end);
        let elapsed = since.elapsed();
        if elapsed < LINE_TIME && !is_over {
            continue;
        }
        let line =
            Line { seconds: elapsed.as_secs_f64(), sample, total, last, intervals: intervals.measured() };
        let text = match (arguments.json, in_place) {
            (true, _) => format!("{}\n", line.json()),
            // The line replaces the previous one.
            (_, true) => format!("\r\x1b[K{}", line.text()),
            (..) => line.text() + "\n",
        };
        is_over |= !write_out(&text, &interrupt, &mut exit);
        (since, last) = (Instant::now(), total);
        intervals = Intervals { last: intervals.last, ..Intervals::default() };
    }
    if in_place {
        write_out("\n", &interrupt, &mut exit);
    }
    if has_ended && exit == Exit::Clean {
        report!("the sender has ended");
    }
    Ok(exit)
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    packets: u64,
    bytes: u64,
    gaps: u64,
    missing: u64,
}

/// The intervals between the packets of one line, by Welford's method.
#[derive(Clone, Copy, Debug, Default)]
struct Intervals {
    last: Option<Instant>,
    count: u64,
    min_ns: f64,
    max_ns: f64,
    mean_ns: f64,
    /// The sum of the squared differences from the mean.
    squares: f64,
}

/// The measurements of the intervals, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Measured {
    min: f64,
    mean: f64,
    max: f64,
    std: f64,
}

impl Intervals {
    fn add(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.add_ns(now.saturating_duration_since(last).as_nanos() as f64);
        }
    }

    fn add_ns(&mut self, ns: f64) {
        self.count += 1;
        self.min_ns = if self.count == 1 { ns } else { self.min_ns.min(ns) };
        self.max_ns = self.max_ns.max(ns);
        let difference = ns - self.mean_ns;
        self.mean_ns += difference / self.count as f64;
        self.squares += difference * (ns - self.mean_ns);
    }

    fn measured(&self) -> Option<Measured> {
        let std = (self.squares / self.count as f64).sqrt();
        (self.count > 0).then_some(Measured { min: self.min_ns, mean: self.mean_ns, max: self.max_ns, std })
    }
}

/// The measurements of a second.
struct Line {
    seconds: f64,
    /// The size of a sample in bytes.
    sample: Option<usize>,
    total: Totals,
    last: Totals,
    intervals: Option<Measured>,
}

impl Line {
    fn rates(&self) -> (f64, f64) {
        let rate = |now: u64, before: u64| (now - before) as f64 / self.seconds;
        (rate(self.total.packets, self.last.packets), rate(self.total.bytes, self.last.bytes))
    }

    fn text(&self) -> String {
        let (packets, bytes) = self.rates();
        let mut words = vec![quantity(packets, "packets/s")];
        words.extend(self.sample.map(|size| quantity(bytes / size as f64, "samples/s")));
        words.push(quantity(bytes, "B/s"));
        if let Some(Measured { min, mean, max, std }) = self.intervals {
            let [min, mean, max, std] = [min, mean, max, std].map(|ns| time(Some(ns.round() as u64)));
            words.push(format!("interval {min} / {mean} / {max} (std {std})"));
        }
        if self.total.gaps > 0 {
            words.push(format!("{}, {} missing", counted(self.total.gaps, "gap"), self.total.missing));
        }
        words.join(", ")
    }

    fn json(&self) -> Value {
        let (packets, bytes) = self.rates();
        let Totals { packets: all_packets, bytes: all_bytes, gaps, missing } = self.total;
        let interval = self.intervals.map(
            |Measured { min, mean, max, std }| json!({ "min": min, "mean": mean, "max": max, "std": std }),
        );
        json!({
            "seconds": self.seconds,
            "packets": all_packets,
            "samples": self.sample.map(|size| all_bytes / size as u64),
            "bytes": all_bytes,
            "packets_per_s": packets,
            "samples_per_s": self.sample.map(|size| bytes / size as f64),
            "bytes_per_s": bytes,
            "gaps": gaps,
            "missing": missing,
            "interval_ns": interval,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_their_mean_and_deviation() {
        let mut intervals = Intervals::default();
        assert_eq!(intervals.measured(), None);
        [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0].into_iter().for_each(|ns| intervals.add_ns(ns));
        assert_eq!(intervals.measured(), Some(Measured { min: 2.0, mean: 5.0, max: 9.0, std: 2.0 }));
    }

    #[test]
    fn a_line_has_the_rates_of_its_second_and_the_totals() {
        let total = Totals { packets: 300, bytes: 4800, gaps: 1, missing: 2 };
        let last = Totals { packets: 100, bytes: 1600, ..Totals::default() };
        let mut line = Line { seconds: 2.0, sample: Some(8), total, last, intervals: None };
        assert_eq!(line.text(), "100 packets/s, 200 samples/s, 1.60 kB/s, 1 gap, 2 missing");
        let json = line.json();
        assert_eq!((&json["samples"], &json["samples_per_s"]), (&json!(600), &json!(200.0)));
        assert_eq!((&json["interval_ns"], &json["missing"]), (&Value::Null, &json!(2)));
        line.sample = None;
        assert_eq!(line.json()["samples"], Value::Null);
    }
}
