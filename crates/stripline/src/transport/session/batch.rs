//! A batch of datagrams, cut from frames, that a session sends with one system call.

use std::io::{self, IoSlice};

use super::DatagramSink;
use super::cut::{DatagramPart, FrameCutter};
use crate::flow::session::{DATAGRAM_HEADER, DatagramHeader};
use crate::sys::udp_batch::BATCH_MAX;

/// Datagrams to be sent.
pub(super) struct DatagramBatch<'a> {
    /// The frames from which the datagrams are cut.
    bytes: &'a [u8],
    headers: [[u8; DATAGRAM_HEADER]; BATCH_MAX],
    parts: [DatagramPart; BATCH_MAX],
    count: usize,
}

impl<'a> DatagramBatch<'a> {
    /// Cuts frames, from the cutter's place on, into datagrams of at most `max` bytes. `header`
    /// returns the header of the next datagram; `None`: the datagram must wait.
    pub(super) fn cut(
        bytes: &'a [u8],
        max: usize,
        cutter: &FrameCutter,
        mut header: impl FnMut(&DatagramPart) -> Option<DatagramHeader>,
    ) -> Self {
        let (headers, parts) = ([[0; DATAGRAM_HEADER]; BATCH_MAX], [DatagramPart::default(); BATCH_MAX]);
        let mut batch = Self { bytes, headers, parts, count: 0 };
        let (mut cutter, mut at) = (*cutter, 0);
        while batch.count < BATCH_MAX && at < bytes.len() {
            let part = cutter.next(&bytes[at..], max);
            let Some(header) = header(&part) else { break };
            batch.headers[batch.count] = header.encode();
            batch.parts[batch.count] = part;
            batch.count += 1;
            cutter.take(&part);
            at += part.bytes;
        }
        batch
    }

    /// Returns the number of datagrams.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there is nothing to send.
    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Sends the datagrams like [`DatagramSink::send_many`], and returns the number of datagrams
    /// sent.
    ///
    /// # Errors
    /// See [`DatagramSink::send_many`].
    pub(super) fn send(&self, path: &dyn DatagramSink) -> io::Result<usize> {
        let mut datagrams = [[IoSlice::new(&[]); 2]; BATCH_MAX];
        for (index, (_, payload)) in self.first(self.count).enumerate() {
            datagrams[index] = [IoSlice::new(&self.headers[index]), IoSlice::new(payload)];
        }
        path.send_many(&datagrams[..self.count])
    }

    /// Returns the first `count` datagrams, and their bytes.
    pub(super) fn first(&self, count: usize) -> impl Iterator<Item = (&DatagramPart, &'a [u8])> {
        let mut at = 0;
        self.parts[..count].iter().map(move |part| {
            let from = at;
            at += part.bytes;
            (part, &self.bytes[from..at])
        })
    }
}
