//! From the bytes on senders' sockets to the packets of a port, under each overflow policy. Covers
//! stream descriptions, gaps, ends, fragmented packets, and senders that close and return.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use num_complex::Complex;
use stripline::fuzzing::Switchboard;
use stripline::fuzzing::{HEADER_BYTES, Header, Kind};
use stripline::node::{Subscriber, wait_any};
use stripline::terms::Overflow;
use stripline::{Error, Received, Sample};
use stripline_fuzz::Choices;

const NAMES: [&str; 3] = ["a -> in", "b -> in", "c -> in"];

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let way = choices.byte();
    // Mostly the first policy, because the others need a thread for each connection.
    let overflow = Overflow::ALL[if way < 0xc0 { 0 } else { usize::from(way >> 2) % Overflow::ALL.len() }];
    match way & 3 {
        0 => play::<u8>(choices, overflow),
        1 => play::<Complex<i16>>(choices, overflow),
        2 => play::<Complex<f64>>(choices, overflow),
        _ => play::<f32>(choices, overflow),
    }
});

/// The packets and events that the port has returned.
#[derive(Default)]
struct Seen {
    packets: u64,
    bytes: u64,
    lost: u64,
}

fn play<T: Sample>(mut choices: Choices, overflow: Overflow) {
    let (switchboard, mut subscriber) = Switchboard::subscriber::<T>(overflow).unwrap();
    let mut senders: Vec<(UnixStream, u64)> = Vec::new();
    let mut seen = Seen::default();
    while !choices.is_empty() {
        let action = choices.byte();
        let name = usize::from(action >> 4) % NAMES.len();
        if senders.is_empty() || action & 15 == 0 {
            if senders.len() < 6 {
                let resume_from = (action & 0x80 != 0).then(|| choices.number());
                senders.push((switchboard.connect(NAMES[name], overflow, resume_from).unwrap(), 0));
            }
            continue;
        }
        let index = usize::from(action >> 4) % senders.len();
        let (socket, sequence) = &mut senders[index];
        match action & 15 {
            1 => drop(senders.remove(index)),
            2 => {
                let length = usize::from(choices.byte());
                let _ = socket.write_all(choices.bytes(length));
            }
            3 | 4 => {
                // A valid stream description, except perhaps for the values.
                let text = format!(r#"{{"id":"{}","sample_rate_hz":{}}}"#, choices.byte(), choices.byte());
                let stream = choices.byte().into();
                let _ = socket.write_all(&frame(&header(*sequence, Kind::Stream, stream), text.as_bytes()));
            }
            5 => {
                let length = choices.byte().into();
                let stream = choices.byte().into();
                let description = choices.bytes(length);
                let _ = socket.write_all(&frame(&header(*sequence, Kind::Stream, stream), description));
            }
            6 => {
                let _ = socket.write_all(&frame(&header(*sequence, Kind::End, 0), &[]));
            }
            7 => {
                let mut link = [&mut subscriber as &mut dyn stripline::node::Waitable];
                let _ = wait_any(&mut link, Some(Duration::ZERO));
            }
            8 | 9 => receive(&mut subscriber, &mut seen),
            10 | 11 => {
                // A gap, a step back, or a jump to the end of the sequence numbers.
                *sequence = sequence.wrapping_add(choices.number());
                let mut header = header(*sequence, Kind::Data, choices.byte().into());
                header.sample_index = choices.number();
                header.sent_ns = choices.number();
                header.time_ns = choices.number() as i64;
                header.flags = choices.byte() % 17;
                let length = usize::from(choices.byte());
                let _ = socket.write_all(&frame(&header, choices.bytes(length)));
                *sequence = sequence.wrapping_add(1);
            }
            12 | 13 => {
                // A fragmented packet, valid unless it is corrupted or unfinished.
                let (pieces, spoilt) = (choices.byte() % 6 + 2, choices.byte());
                let mut offset = 0;
                for piece in 0..pieces {
                    let payload = vec![action; usize::from(choices.byte() % 64)];
                    let mut header = header(*sequence, Kind::Data, 0);
                    header.flags = u8::from(piece + 1 < pieces) | u8::from(piece > 0) << 1;
                    header.sample_index = offset;
                    offset += payload.len() as u64;
                    if piece == spoilt >> 3 {
                        match spoilt & 7 {
                            0 => header.flags = choices.byte() % 17,
                            1 => header.sample_index = choices.number(),
                            2 => header.sequence = choices.number(),
                            3 => header.kind = choices.byte() % 5,
                            4 => header.stream = 1,
                            5 => continue,
                            6 => break,
                            _ => receive(&mut subscriber, &mut seen),
                        }
                    }
                    let _ = socket.write_all(&frame(&header, &payload));
                }
                *sequence = sequence.wrapping_add(1);
            }
            _ => {
                let samples = usize::from(choices.byte() % 16);
                let payload = vec![action; samples * size_of::<T>()];
                let _ = socket.write_all(&frame(&header(*sequence, Kind::Data, 0), &payload));
                *sequence = sequence.wrapping_add(1);
            }
        }
    }
    for (sender, _) in &senders {
        let _ = sender.shutdown(Shutdown::Write);
    }
    // Receives everything still in transit, until no connection is left.
    loop {
        receive(&mut subscriber, &mut seen);
        if subscriber.senders() == 0 {
            break;
        }
        std::thread::yield_now();
    }
    let counters = switchboard.counters();
    assert_eq!(counters.packets, seen.packets);
    assert_eq!(counters.bytes, seen.bytes);
    assert!(counters.lost >= seen.lost, "{} counted, {} reported", counters.lost, seen.lost);
}

fn header(sequence: u64, kind: Kind, stream: u16) -> Header {
    let kind = kind as u8;
    Header {
        sequence,
        sample_index: 0,
        time_ns: 0,
        intended_ns: 0,
        sent_ns: 0,
        length: 0,
        stream,
        kind,
        flags: 0,
    }
}

fn frame(header: &Header, payload: &[u8]) -> Vec<u8> {
    let header = Header { length: payload.len() as u32, ..*header };
    let mut frame = bytemuck::bytes_of(&header).to_vec();
    frame.extend_from_slice(payload);
    frame.resize((HEADER_BYTES + payload.len()).next_multiple_of(16), 0);
    frame
}

fn receive<T: Sample>(subscriber: &mut Subscriber<T>, seen: &mut Seen) {
    // The number of errors is finite too: each costs a connection or a packet.
    loop {
        match subscriber.try_receive() {
            Ok(Received::Packet(packet)) => {
                seen.packets += 1;
                seen.bytes += size_of_val(&*packet) as u64;
                if let Some(gap) = packet.gap() {
                    seen.lost = seen.lost.saturating_add(gap.packets);
                    if gap.packets > 0 {
                        assert!(gap.first.checked_add(gap.packets).is_some());
                    }
                }
                assert!(packet.as_ptr().is_aligned());
                assert!(NAMES.contains(&packet.connection()));
                let _ = packet.stream().id.len();
            }
            Ok(Received::Empty | Received::Ended) => break,
            Err(Error::PeerMisbehaved { peer, violation }) => {
                assert!(NAMES.contains(&&*peer), "{peer} {violation}");
                if violation.contains("as samples of") {
                    // The packet was counted first, and then refused because of the size.
                    seen.packets += 1;
                    seen.bytes += bytes_of(&violation);
                }
            }
            Err(Error::Ejected { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
    if let Some(gap) = subscriber.gap_at_end() {
        seen.lost = seen.lost.saturating_add(gap.packets);
    }
}

/// Returns the bytes in the message "sent N bytes as samples of M bytes".
fn bytes_of(violation: &str) -> u64 {
    violation.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap()
}
