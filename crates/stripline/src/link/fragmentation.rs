//! The fragmentation of packets that are larger than a frame.

use crate::packet::Header;
use crate::sys::aligned_buffer::AlignedBuffer;

/// The buffer of a sending port for a large packet, until the packet is sent. The memory is reused.
#[derive(Default)]
pub(super) struct Fragmenter {
    bytes_buffer: AlignedBuffer,
    is_active: bool,
}

/// A range of a packet's bytes, and the flags for the fragment's header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fragment {
    pub offset: usize,
    pub bytes: usize,
    pub flags: u8,
}

impl Fragmenter {
    /// Returns whether the packet being written is in this buffer.
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    pub(super) fn set_active(&mut self, holds: bool) {
        self.is_active = holds;
    }

    /// Returns room for a packet.
    pub(super) fn buffer(&mut self, bytes: usize) -> &mut [u8] {
        self.bytes_buffer.grow(bytes);
        self.is_active = true;
        &mut self.bytes_buffer.bytes_mut()[..bytes]
    }

    pub(super) fn bytes(&self, fragment: Fragment) -> &[u8] {
        &self.bytes_buffer.bytes()[fragment.offset..][..fragment.bytes]
    }
}

/// Returns the fragments of a packet for frames with room for `frame_max` bytes of the packet.
///
/// A fragment takes half of that room, which is a quarter of a ring: while the receiver takes one
/// fragment, the sender has room to write another. The sizes are whole cache lines, so that
/// reassembly never writes a line twice.
pub(super) fn fragments(payload: usize, frame_max: usize) -> impl Iterator<Item = Fragment> {
    let one = if payload <= frame_max { payload } else { (frame_max / 2 / 64 * 64).max(1) };
    let mut offset = 0;
    let mut over = false;
    std::iter::from_fn(move || {
        if over {
            return None;
        }
        let bytes = one.min(payload - offset);
        over = offset + bytes == payload;
        let more = if over { 0 } else { Header::MORE };
        let continued = if offset == 0 { 0 } else { Header::CONTINUED };
        let fragment = Fragment { offset, bytes, flags: more | continued };
        offset += bytes;
        Some(fragment)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::link::{Outgoing, Reassembler, Reassembly, Sampling};
    use crate::packet::payload::TypeName;
    use crate::terms::{LinkOptions, SenderOptions};
    use crate::transport::{self, BindRequest, ConnectRequest, Next, StopToken};

    #[test]
    fn what_fits_goes_in_one() {
        for bytes in [0, 1, 1920] {
            let all: Vec<Fragment> = fragments(bytes, 1920).collect();
            assert_eq!(all, [Fragment { offset: 0, bytes, flags: 0 }]);
        }
    }

    #[test]
    fn a_piece_is_a_quarter_of_the_ring() {
        for ring in [4096, 1 << 21, 1 << 30] {
            let room = stripline_ring::max_frame(ring) - size_of::<Header>();
            let first = fragments(ring, room).next().unwrap();
            assert_eq!(stripline_ring::frame_stride(size_of::<Header>() + first.bytes), ring / 4);
        }
    }

    #[test]
    fn a_port_over_two_transports_splits_for_the_smaller_ring() {
        let (stop, payload) = (StopToken::new().unwrap(), TypeName::of::<u8>());
        let (mut outlets, mut inlets) = (Vec::new(), Vec::new());
        for (name, buffer) in [("inproc", 65_536), ("uds", 4096)] {
            let options = LinkOptions { buffer, ..LinkOptions::default() };
            let (transport, stop) = (transport::find(name).unwrap(), stop.clone());
            let bind = BindRequest {
                port: "out".into(),
                payload: payload.clone(),
                options: SenderOptions::from(&options),
                stop,
                former_paths: Default::default(),
            };
            let outlet = transport.bind(bind).unwrap();
            let request = ConnectRequest::new(format!("out -> {name}"), payload.clone(), options);
            inlets.push(transport.connect(&outlet.traits().endpoint, &request).unwrap());
            outlets.push(outlet);
        }
        let mut outgoing = Outgoing::new("out".into(), outlets, Sampling::Off, stop);
        let sent: Vec<u8> = (0..10_000_u32).map(|i| ((i * i) >> 3) as u8).collect();
        let place = outgoing.reserve(sent.len(), true).unwrap();
        // SAFETY: the place was just lent, and the port has not been called since.
        unsafe { place.get_mut::<u8>() }.copy_from_slice(&sent);
        outgoing.send(sent.len(), sent.len() as u64).unwrap();
        for mut inlet in inlets {
            let (mut reassembler, mut frames) = (Reassembler::new(false), 0);
            loop {
                let joined = match inlet.try_next().unwrap() {
                    Next::Frame(frame) => reassembler.add_frame(frame).unwrap(),
                    Next::Empty => continue,
                    Next::Closed => panic!("gone"),
                };
                frames += 1;
                inlet.release();
                if joined == Reassembly::Complete {
                    break;
                }
            }
            // The frames are the description of the stream, and eleven fragments of at most 960
            // bytes.
            assert_eq!((frames, reassembler.payload()), (12, &sent[..]));
        }
    }

    proptest! {
        #[test]
        fn pieces_follow_each_other(payload in 0usize..100_000, frame_max in 1usize..5000) {
            let all: Vec<Fragment> = fragments(payload, frame_max).collect();
            let mut next = 0;
            for (index, fragment) in all.iter().enumerate() {
                prop_assert_eq!(fragment.offset, next);
                prop_assert!(fragment.bytes <= frame_max && (fragment.bytes > 0 || payload == 0));
                prop_assert_eq!(fragment.flags & Header::CONTINUED != 0, index > 0);
                prop_assert_eq!(fragment.flags & Header::MORE != 0, index + 1 < all.len());
                next += fragment.bytes;
            }
            prop_assert_eq!(next, payload);
        }
    }
}
