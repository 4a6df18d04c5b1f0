//! `stripline echo`: packets as text or JSON.

use stripline_components::components::PacketLines;

use super::arguments::EchoArguments;
use super::source::{POLL_TIME, Poll, Source};
use super::{Interrupt, write_out};
use crate::Exit;
use crate::failure::{Failure, Outcome};
use crate::format::printable;

/// Samples of a packet in a line of text, by default.
const SAMPLES_DEFAULT: usize = 8;

pub(crate) fn echo(arguments: &EchoArguments) -> Outcome {
    let interrupt = Interrupt::catch()?;
    let Some(mut source) = Source::open(&arguments.source, &interrupt)? else { return Ok(Exit::Clean) };
    let default = if arguments.json { usize::MAX } else { SAMPLES_DEFAULT };
    let payload = source.payload.clone();
    let mut lines = PacketLines::new(payload, arguments.json, arguments.samples.unwrap_or(default));
    let (mut exit, mut left) = (Exit::Clean, arguments.count);
    report!("{}: {}; Ctrl-C ends it", printable(&source.name, super::TEXT_MAX), source.payload);
    while !interrupt.is_set() {
        let mut printed = String::new();
        let polled = source.poll(POLL_TIME, |packet| printed = lines.packet(packet));
        let is_over = match polled {
            Ok(Poll::Packet) => {
                left = left.map(|left| left - 1);
                left == Some(0)
            }
            Ok(Poll::Empty) => false,
            Ok(Poll::Restarted) => {
                printed = lines.event("restart", "the sender was started again");
                false
            }
            Ok(Poll::Ended) => {
                printed = source.gap_at_end().map(|gap| lines.gap(&gap)).unwrap_or_default();
                printed += &lines.event("end", "the sender has ended");
                true
            }
            Err(error) => {
                exit = Failure::new(error).report();
                true
            }
        };
        if !printed.is_empty() && !write_out(&printed, &interrupt, &mut exit) || is_over {
            break;
        }
    }
    Ok(exit)
}
