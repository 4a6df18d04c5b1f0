//! Packets with arbitrary order numbers, put back in sequence.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::collections::BTreeMap;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::Switchboard;
use stripline::fuzzing::{HEADER_BYTES, Header, Kind};
use stripline::node::Subscriber;
use stripline::terms::Overflow;
use stripline::{Error, Received};
use stripline_fuzz::Choices;

const NAMES: [&str; 2] = ["a -> in", "b -> in"];

/// The number of the last packet returned, by sender and origin.
type Last = BTreeMap<(u32, u16), u64>;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let way = choices.byte();
    let (switchboard, subscriber) = Switchboard::subscriber::<u32>(Overflow::Block).unwrap();
    let skip_after = if way & 1 == 0 { Duration::ZERO } else { Duration::from_secs(3600) };
    let mut packets = subscriber.resequenced(usize::from(way >> 1) + 1, skip_after).unwrap();
    let mut senders: Vec<Sender> = Vec::new();
    let (mut connected, mut sent, mut received, mut last) = (0, 0, 0, Last::new());
    while !choices.is_empty() {
        let action = choices.byte();
        if senders.is_empty() || action & 7 == 0 {
            if senders.len() < 4 {
                let socket = switchboard.connect(NAMES[usize::from(action >> 7)], Overflow::Block, None);
                senders.push(Sender { socket: socket.unwrap(), id: connected, sequence: 0, number: 0 });
                connected += 1;
            }
            continue;
        }
        let index = usize::from(action >> 5) % senders.len();
        match action & 7 {
            1 => receive(&mut packets, &mut received, &mut last),
            2 if action & 16 != 0 => drop(senders.swap_remove(index)),
            2 => senders[index].write(Kind::End, 0, 0),
            way => {
                // The number is near the last one, far from it, or of another origin.
                let sender = &mut senders[index];
                let jump = match way {
                    3 => choices.number(),
                    4 => u64::from(choices.byte()) << 48,
                    _ => u64::from(choices.byte() % 8),
                };
                sender.number = sender.number.wrapping_add(jump);
                // Use a few origins only. With many, the subscriber would drop the oldest, and it
                // would begin again from the start.
                let number = sender.number.wrapping_sub(u64::from(action >> 3 & 3)) & ((1 << 50) - 1);
                sender.write(Kind::Data, number, if action & 16 == 0 { Header::ORDERED } else { 0 });
                sent += 1;
            }
        }
    }
    senders.iter_mut().for_each(|sender| sender.write(Kind::End, 0, 0));
    receive(&mut packets, &mut received, &mut last);
    assert!(received <= sent, "{received} received of {sent}");
});

struct Sender {
    socket: UnixStream,
    id: u32,
    sequence: u64,
    number: u64,
}

impl Sender {
    fn write(&mut self, kind: Kind, order: u64, flags: u8) {
        let samples = [self.id, flags.into()];
        let payload = if kind == Kind::Data { bytemuck::bytes_of(&samples) } else { &[] };
        let header = Header {
            sequence: self.sequence,
            sample_index: self.sequence,
            time_ns: 0,
            intended_ns: order,
            sent_ns: 0,
            length: payload.len() as u32,
            stream: 0,
            kind: kind as u8,
            flags,
        };
        let mut frame = [bytemuck::bytes_of(&header), payload].concat();
        frame.resize((HEADER_BYTES + payload.len()).next_multiple_of(16), 0);
        // The port reads nothing more from a connection that has ended or was closed.
        let _ = self.socket.write_all(&frame);
        self.sequence += u64::from(kind == Kind::Data);
    }
}

fn receive(packets: &mut Subscriber<u32>, received: &mut u32, last: &mut Last) {
    // The number of errors is finite too: each costs a connection or a packet.
    loop {
        match packets.try_receive() {
            Ok(Received::Packet(packet)) => {
                *received += 1;
                assert!(NAMES.contains(&packet.connection()));
                if packet[1] != 0 {
                    let (of, number) = ((packet[0], packet.order().origin()), packet.order().number());
                    let before = last.insert(of, number);
                    assert!(before < Some(number), "{number} of {of:?} after {before:?}");
                }
            }
            Ok(Received::Empty | Received::Ended) => break,
            Err(Error::WindowOverflow { connection, .. } | Error::DuplicatePacket { connection, .. }) => {
                assert!(NAMES.contains(&&*connection));
            }
            Err(Error::PeerMisbehaved { peer, .. }) => assert!(NAMES.contains(&&*peer)),
            Err(error) => panic!("{error}"),
        }
    }
    let _ = packets.gap_at_end();
}
