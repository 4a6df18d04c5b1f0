//! The places of a pipeline, through the library's public interface: a producer, components, and an
//! observer. The observer comes after the last component if packets are resequenced.

use std::time::Duration;

use bytemuck::cast_slice_mut;
use num_complex::Complex;
use serde::{Deserialize, Serialize};
use stripline::Sample;
use stripline::node::{Node, Publisher, Topics};

use super::case::ExperimentCase;
use super::component::{Input, work};
use crate::ladder::measure;
use crate::ladder::turns::now_ns as now;
use crate::process::NoResult;
use crate::timeout::{TIMEOUT, wait_until};

/// The measurements of one place in the pipeline. Times are monotonic nanoseconds of the host.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PlaceResult {
    pub place: u32,
    /// For the producer, the beginning of the first send. For a component, the time at which it
    /// took the first packet.
    pub first_ns: u64,
    /// The time at which the last packet had been passed on. For the last component, the time at
    /// which the work on it was done.
    pub last_ns: u64,
    /// For the producer: the duration of each send, including the wait for room.
    pub sends_ns: Vec<u64>,
    /// For the producer: how much later than intended the latest send began.
    pub behind_ns: u64,
    /// For a component: the time of work on each packet, in the order in which the packets left.
    pub services_ns: Vec<u64>,
    pub reordered: u64,
    pub duplicates: u64,
    pub missing: u64,
}

/// A barrier for all places, before the first packet and after the last.
pub(super) trait PlaceBarrier {
    fn start(&self) -> Result<(), NoResult>;
    fn end(&self) -> Result<(), NoResult>;
}

/// Returns the rules of the case's topics, or the reason why the library refuses them.
pub(super) fn topics(case: &ExperimentCase) -> Result<Topics, NoResult> {
    let text = format!("[default]\ntransport = '{}'\nscope = '{}'\n", case.transport, case.scope);
    Topics::parse(&text).map_err(|error| NoResult::Refused(one_line(&error.to_string())))
}

/// Returns the message of a parser without the excerpt, because the excerpt shows a text that the
/// user has not written.
fn one_line(message: &str) -> String {
    let is_drawn = |line: &str| line.is_empty() || line.contains('|') || line.contains(" at line ");
    let lines = message.lines().map(str::trim);
    let told: Vec<&str> = lines.filter(|line| !is_drawn(line)).collect();
    if told.is_empty() { message.replace('\n', " ") } else { told.join(" ") }
}

macro_rules! elements {
    ($($name:literal => $type:ty,)*) => {
        /// The supported element types of packets.
        pub(super) const ELEMENTS: &[&str] = &[$($name),*];

        /// Runs one place of the case's pipeline, from the first packet to the last.
        pub(super) fn run(
            case: &ExperimentCase,
            place: u32,
            node: &Node,
            barrier: &impl PlaceBarrier,
        ) -> Result<PlaceResult, NoResult> {
            match case.element.as_str() {
                $($name => run_with::<$type>(case, place, node, barrier),)*
                other => Err(NoResult::Failed(format!("there is no element type `{other}`"))),
            }
        }
    };
}

elements! {
    "u8" => u8,
    "s16" => i16,
    "s32" => i32,
    "f32" => f32,
    "f64" => f64,
    "cs16" => Complex<i16>,
    "cf32" => Complex<f32>,
    "cf64" => Complex<f64>,
}

pub(super) fn is_element(name: &str) -> bool {
    ELEMENTS.contains(&name)
}

fn run_with<T: Sample>(
    case: &ExperimentCase,
    place: u32,
    node: &Node,
    barrier: &impl PlaceBarrier,
) -> Result<PlaceResult, NoResult> {
    let hop = |from: u32| format!("hop-{from}");
    let is_last = place + 1 == case.places();
    let mut output = if is_last { None } else { Some(node.publisher::<T>(&hop(place))?) };
    let mut input = match place {
        0 => None,
        _ => Some(Input::new(case, place, node.subscriber::<T>(&hop(place - 1))?)?),
    };
    if let Some(output) = &mut output
        && !output.wait_for_receivers(1, TIMEOUT)?
    {
        return Err(format!("component {} did not connect", place + 1).into());
    }
    if let Some(input) = &mut input {
        let problem = format!("no sender connected to component {place}");
        wait_until::<NoResult>(&problem, || Ok(input.subscriber.senders() > 0))?;
    }
    let mut seen = match (&mut input, &mut output) {
        (None, Some(output)) => produce(case, output, barrier)?,
        (Some(input), output) => work(case, place, input, output.as_mut(), barrier)?,
        (None, None) => return Err(NoResult::Failed("a pipeline without components".into())),
    };
    seen.place = place;
    Ok(seen)
}

/// Sends all packets when they are due, or as soon as possible afterwards.
fn produce<T: Sample>(
    case: &ExperimentCase,
    output: &mut Publisher<T>,
    barrier: &impl PlaceBarrier,
) -> Result<PlaceResult, NoResult> {
    let samples = case.size / size_of::<T>();
    let pace_ns = (case.pace_ms * 1e6) as u64;
    let mut seen =
        PlaceResult { sends_ns: Vec::with_capacity(case.packets as usize), ..PlaceResult::default() };
    barrier.start()?;
    seen.first_ns = now();
    for number in 0..u64::from(case.packets) {
        let due = seen.first_ns + number * pace_ns;
        let early = if number == 0 { 0 } else { due.saturating_sub(now()) };
        if early > 0 {
            std::thread::sleep(Duration::from_nanos(early));
        }
        let began = now();
        if pace_ns > 0 {
            seen.behind_ns = seen.behind_ns.max(began.saturating_sub(due));
        }
        let mut loan = output.loan(samples)?;
        measure::write(cast_slice_mut(&mut loan), number);
        loan.send()?;
        seen.last_ns = now();
        seen.sends_ns.push(seen.last_ns - began);
    }
    barrier.end()?;
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_is_one_line_in_the_librarys_words() {
        let text = "topics: TOML parse error at line 1, column 1\n  |\n1 | x = 1\n  | ^\nunknown field `x`\n";
        assert_eq!(one_line(text), "unknown field `x`");
        assert_eq!(one_line("topic `a`: not built yet; use b"), "topic `a`: not built yet; use b");
        assert_eq!(one_line("a | b"), "a | b");
    }
}
