//! The sending port: numbers packets, describes streams, and hands frames to its transports.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fail_point::fail_point;
use crate::packet::{HEADER_BYTES, Header, Kind, StreamInfo};
use crate::sys::clock::now_ns;
use crate::transport::{Outlet, Stop, Wait};

use super::sampler::{Sampler, Sampling};

/// Packets between repeated stream descriptions, for receivers that may have lost one. It is also repeated after
/// every quarter of a ring: whatever a receiver that was overtaken still finds there, a description is near.
const DESCRIBE_EVERY: u64 = 1024;

/// What a packet says of itself besides its samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamp {
    /// `None`: follows the packet before.
    pub sample_index: Option<u64>,
    pub time_ns: i64,
    pub intended_ns: u64,
}

pub(crate) struct Outgoing {
    port: String,
    outlets: Vec<Box<dyn Outlet>>,
    sequence: u64,
    sample_index: u64,
    stream: u16,
    info: Arc<StreamInfo>,
    described: bool,
    /// Bytes of packets since the last description.
    undescribed: usize,
    sampler: Sampler,
    stop: Stop,
    finished: bool,
    /// Taken back when the port is gone.
    offer: Option<Box<dyn Send>>,
}

impl Outgoing {
    pub(crate) fn new(
        port: String,
        mut outlets: Vec<Box<dyn Outlet>>,
        sampling: Sampling,
        stop: Stop,
    ) -> Self {
        if outlets.is_empty() {
            outlets.push(Box::new(super::discard::Discard::default()));
        }
        let info = Arc::new(StreamInfo::new(&port));
        Self {
            port,
            outlets,
            sequence: crate::fail_point::start().1,
            sample_index: 0,
            stream: 0,
            info,
            described: false,
            undescribed: 0,
            sampler: Sampler::new(sampling),
            stop,
            finished: false,
            offer: None,
        }
    }

    /// Holds something until the port is gone.
    pub(crate) fn hold(&mut self, offer: impl Send + 'static) {
        self.offer = Some(Box::new(offer));
    }

    pub(crate) fn port(&self) -> &str {
        &self.port
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    pub(crate) fn receivers(&mut self) -> usize {
        self.outlets.iter().map(|outlet| outlet.receivers()).sum()
    }

    /// Takes in who is waiting at the door; for those who must be counted before a first packet is sent.
    pub(crate) fn admit(&mut self) {
        let mut arrived = false;
        for outlet in &mut self.outlets {
            arrived |= outlet.admit();
        }
        if arrived {
            self.described = false;
        }
    }

    /// The largest payload, in bytes.
    pub(crate) fn payload_max(&self) -> usize {
        self.outlets.iter().map(|o| o.frame_max()).min().unwrap_or(0).saturating_sub(HEADER_BYTES)
    }

    /// Says which stream the packets that follow belong to; cheap when it is the same as before.
    pub(crate) fn set_stream(&mut self, info: &Arc<StreamInfo>) {
        if Arc::ptr_eq(&self.info, info) {
            return;
        }
        if *self.info != **info {
            // Packets of the old description may still be unread: a new number, not a new meaning.
            if self.described {
                self.stream = self.stream.wrapping_add(1);
                self.described = false;
            }
            if self.info.id != info.id {
                self.sample_index = 0;
            }
        }
        self.info = Arc::clone(info);
    }

    /// Whether packets sent now belong to that stream, without another description.
    pub(crate) fn follows(&mut self, info: &Arc<StreamInfo>) -> bool {
        if !Arc::ptr_eq(&self.info, info) && *self.info == **info {
            self.info = Arc::clone(info);
        }
        Arc::ptr_eq(&self.info, info)
    }

    /// Makes room for a payload of that many bytes and gives the place to write it.
    pub(crate) fn reserve(&mut self, payload: usize, wait: Wait) -> Result<&mut [u8]> {
        if self.finished {
            return Err(Error::port(&self.port, "has sent its end of stream already"));
        }
        // Here and not only where it waits: a sender whose receivers keep up never waits.
        if self.stop.is_stopped() {
            return Err(Error::Stopped);
        }
        self.admit();
        let max = self.payload_max();
        let due = self.sequence.is_multiple_of(DESCRIBE_EVERY) || self.undescribed > max / 2;
        let repeat = due && self.outlets.iter().any(|o| o.is_lossy());
        if !self.described || repeat {
            self.describe(wait)?;
        }
        if payload > max {
            return Err(Error::TooLarge { bytes: payload, bytes_max: max });
        }
        let frame = self.outlets[0].reserve(HEADER_BYTES + payload, wait)?;
        Ok(&mut frame[HEADER_BYTES..][..payload])
    }

    /// Sends the first `payload` bytes of the reserved place: `samples` samples.
    pub(crate) fn send(&mut self, payload: usize, samples: u64, stamp: Stamp, wait: Wait) -> Result<()> {
        let sample_index = stamp.sample_index.unwrap_or(self.sample_index);
        let header = Header {
            sequence: self.sequence,
            sample_index,
            time_ns: stamp.time_ns,
            intended_ns: stamp.intended_ns,
            sent_ns: self.sampler.stamp(),
            length: payload as u32,
            stream: self.stream,
            kind: Kind::Data as u8,
            flags: 0,
        };
        self.put(&header, payload, wait)?;
        self.sequence += 1;
        self.undescribed = self.undescribed.saturating_add(payload);
        self.sample_index = sample_index + samples;
        Ok(())
    }

    pub(crate) fn cancel(&mut self) {
        self.outlets[0].cancel();
    }

    /// Says that nothing follows and waits until everything has left this process.
    pub(crate) fn finish(&mut self, wait: Wait) -> Result<()> {
        if std::mem::replace(&mut self.finished, true) {
            return Ok(());
        }
        self.admit();
        if !self.described {
            self.describe(wait)?;
        }
        self.outlets[0].reserve(HEADER_BYTES, wait)?;
        let header = self.bare(Kind::End, 0);
        fail_point!("end");
        self.put(&header, 0, wait)?;
        fail_point!("end-published");
        self.outlets.iter_mut().try_for_each(|outlet| outlet.flush(wait))
    }

    fn describe(&mut self, wait: Wait) -> Result<()> {
        let text = serde_json::to_vec(&*self.info)
            .map_err(|e| Error::failed(format!("stream `{}`: {e}", self.info.id)))?;
        let max = self.payload_max().min(StreamInfo::ENCODED_MAX);
        if text.len() > max {
            return Err(Error::TooLarge { bytes: text.len(), bytes_max: max });
        }
        let frame = self.outlets[0].reserve(HEADER_BYTES + text.len(), wait)?;
        frame[HEADER_BYTES..][..text.len()].copy_from_slice(&text);
        let header = self.bare(Kind::Stream, text.len());
        self.put(&header, text.len(), wait)?;
        self.described = true;
        self.undescribed = 0;
        Ok(())
    }

    fn bare(&self, kind: Kind, length: usize) -> Header {
        Header {
            sequence: self.sequence,
            sample_index: self.sample_index,
            time_ns: 0,
            intended_ns: 0,
            sent_ns: if kind == Kind::End { now_ns() } else { 0 },
            length: length as u32,
            stream: self.stream,
            kind: kind as u8,
            flags: 0,
        }
    }

    /// Publishes what the first outlet holds at every outlet: all of them or, when one is full, none.
    fn put(&mut self, header: &Header, payload: usize, wait: Wait) -> Result<()> {
        let bytes = HEADER_BYTES + payload;
        let Some((first, others)) = self.outlets.split_first_mut() else { return Ok(()) };
        for index in 0..others.len() {
            if let Err(error) = others[index].reserve(bytes, wait) {
                others[..index].iter_mut().for_each(|outlet| outlet.cancel());
                first.cancel();
                return Err(error);
            }
        }
        first.reserved()[..HEADER_BYTES].copy_from_slice(bytemuck::bytes_of(header));
        for outlet in &mut *others {
            outlet.reserved()[..bytes].copy_from_slice(&first.reserved()[..bytes]);
        }
        let mut outcome = first.publish(bytes, wait);
        for outlet in others {
            outcome = outcome.and(outlet.publish(bytes, wait));
        }
        outcome
    }
}
