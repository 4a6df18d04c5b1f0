//! Cyclone DDS: a reliable topic for each direction, and a reader with a wait set. The participant
//! has the same configuration as in the transport `dds`, so that the same threads and datagrams
//! carry the packets.

use std::ffi::{CString, c_void};
use std::sync::OnceLock;
use std::time::Duration;

use stripline_dds_sys as sys;

use super::super::case::{Case, Measure};
use super::super::measure::{self, Receiver, Sender, Side};
use crate::Problem;
use crate::timeout::wait_until;

/// The time for messages of the other end to arrive after the ends have found each other.
const SETTLE_TIME: Duration = Duration::from_millis(300);
/// The number of the domain in this process. The transport `dds` uses another number.
const DOMAIN: u32 = 77;
/// The number of bytes before the payload: the encoding and the numbers.
const FRONT: usize = 24;

/// Connects one side.
pub(crate) fn connect(case: &Case, place: u32, domain: &str) -> Result<Box<dyn Side>, Problem> {
    let participant = participant()?;
    let terms = sys::Terms { is_transient_local: 0, is_reliable: 1, depth: 0, deadline_ns: 0, write_ns: 0 };
    let topic =
        |of: u32| CString::new(format!("{}_{of}", domain.replace('-', "_"))).map_err(|e| e.to_string());
    let (own, peers) = (topic(place)?, topic(1 - place)?);
    let (mut writer, mut reader) = (sys::End::default(), sys::End::default());
    // SAFETY: the participant is open, and the events stay valid until the process ends.
    unsafe {
        let events = || {
            Box::leak(Box::new(sys::Events {
                matched: ignore,
                arrived: ignore,
                context: std::ptr::null_mut(),
            }))
        };
        checked(
            "writer",
            sys::stripline_dds_create_writer(
                participant,
                sys::FRAMES,
                own.as_ptr(),
                &terms,
                events(),
                &raw mut writer,
            ),
        )?;
        checked(
            "reader",
            sys::stripline_dds_create_polled_reader(
                participant,
                sys::FRAMES,
                peers.as_ptr(),
                &terms,
                &raw mut reader,
            ),
        )?;
    }
    // SAFETY: the reader is open.
    let wait_set =
        checked("wait set", unsafe { sys::stripline_dds_create_wait_set(participant, reader.end) })?;
    // In a stream, each side keeps only one end, and drops the other end as soon as it is
    // connected.
    let is_stream = case.measure == Measure::Throughput;
    wait_until::<Problem>("Cyclone DDS: the peer did not connect", || {
        // SAFETY: both ends are open.
        let counts = unsafe {
            [sys::stripline_dds_matched_readers(writer.end), sys::stripline_dds_matched_writers(reader.end)]
        };
        Ok((is_stream && place > 0 || counts[0] > 0) && (is_stream && place == 0 || counts[1] > 0))
    })?;
    // The other side may find this side later.
    std::thread::sleep(SETTLE_TIME);
    let sender = DdsSender { writer: writer.end, bytes: vec![0; case.size] };
    Ok(measure::side(case, place, sender, DdsReceiver { reader: reader.end, wait_set, size: case.size }))
}

/// Returns the participant of this process, which all cases share.
fn participant() -> Result<i32, Problem> {
    static PARTICIPANT: OnceLock<Result<i32, Problem>> = OnceLock::new();
    let open = || {
        let place = stripline_middleware::internal::DdsPlace::connections();
        let configuration = CString::new(place.configuration()).map_err(|e| e.to_string())?;
        let (text, none) = (configuration.as_ptr(), std::ptr::null());
        let (mut made, mut participant) = (0, 0);
        // SAFETY: the string is NUL-terminated, and both numbers may be written.
        checked("domain", unsafe {
            sys::stripline_dds_open(DOMAIN, text, none, &raw mut made, &raw mut participant)
        })?;
        Ok(participant)
    };
    PARTICIPANT.get_or_init(open).clone()
}

unsafe extern "C" fn ignore(_context: *mut c_void, _end: i32) {}

fn checked(what: &str, code: i32) -> Result<i32, Problem> {
    if code < 0 { Err(format!("Cyclone DDS: {what}: {code}")) } else { Ok(code) }
}

struct DdsSender {
    writer: i32,
    bytes: Vec<u8>,
}

impl Sender for DdsSender {
    fn send(&mut self, word: u64) -> Result<(), Problem> {
        measure::write(&mut self.bytes, word);
        let length = self.bytes.len() as u32;
        // SAFETY: the writer is open, and copies the bytes before it returns.
        checked("write", unsafe {
            sys::stripline_dds_write_frames(self.writer, 0, 0, self.bytes.as_ptr(), length)
        })?;
        Ok(())
    }
}

struct DdsReceiver {
    reader: i32,
    wait_set: i32,
    size: usize,
}

impl Receiver for DdsReceiver {
    fn receive(&mut self) -> Result<u64, Problem> {
        loop {
            let mut sample = sys::Sample {
                owner: std::ptr::null_mut(),
                bytes: std::ptr::null(),
                length: 0,
                publication: 0,
            };
            // SAFETY: the reader and the wait set are open.
            match checked("take", unsafe { sys::stripline_dds_take(self.reader, &raw mut sample) })? {
                // SAFETY: as above.
                0 => checked("wait", unsafe { sys::stripline_dds_wait(self.wait_set) })?,
                1 => {
                    // SAFETY: the sample has `length` bytes, which stay valid until the sample is
                    // released below.
                    let bytes = unsafe { std::slice::from_raw_parts(sample.bytes, sample.length) };
                    let word = match bytes.get(FRONT..FRONT + self.size) {
                        Some(payload) => measure::read(payload),
                        None => Err(format!("Cyclone DDS: a packet of {} bytes", bytes.len())),
                    };
                    // SAFETY: the sample was taken above, and is not used after the release.
                    unsafe { sys::stripline_dds_release(&raw mut sample) };
                    return word;
                }
                _ => 0,
            };
        }
    }
}

impl Drop for DdsSender {
    fn drop(&mut self) {
        // SAFETY: the writer is open, and is not used again.
        unsafe { sys::stripline_dds_delete(self.writer) };
    }
}

impl Drop for DdsReceiver {
    fn drop(&mut self) {
        // SAFETY: the wait set and the reader are open, and are not used again.
        unsafe {
            sys::stripline_dds_delete(self.wait_set);
            sys::stripline_dds_delete(self.reader);
        }
    }
}
