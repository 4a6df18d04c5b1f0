//! Datagrams of VITA 49.2: packets, contexts, formats and lost samples.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline_fuzz as _; // for the allocator
use stripline_radio::vita49::{BadPacket, Packet, PacketKind, check_datagrams};

fuzz_target!(|data: &[u8]| {
    read(data);
    // With a size that is right.
    let mut whole = data[..data.len() / 4 * 4].to_vec();
    if whole.len() >= 4 {
        let words = u16::try_from(whole.len() / 4).unwrap_or(u16::MAX);
        whole[2..4].copy_from_slice(&words.to_be_bytes());
        read(&whole);
    }
    // Several datagrams of one stream, each behind its length in words.
    let (mut datagrams, mut left) = (Vec::new(), data);
    while let Some((words, rest)) = left.split_first() {
        let (datagram, behind) = rest.split_at(rest.len().min(usize::from(*words) * 4));
        datagrams.push(datagram);
        left = behind;
    }
    check_datagrams(&datagrams);
});

fn read(bytes: &[u8]) {
    match Packet::parse(bytes) {
        Ok(packet) => {
            assert_eq!(packet.payload.len() % 4, 0);
            assert!(packet.payload.len() + 4 <= bytes.len());
            assert!(
                packet.trailer.is_none()
                    || matches!(
                        packet.kind,
                        PacketKind::Signal | PacketKind::Spectrum | PacketKind::ExtensionData
                    )
            );
        }
        Err(error) => assert!(error.reason() < BadPacket::REASONS && !error.to_string().is_empty()),
    }
}
