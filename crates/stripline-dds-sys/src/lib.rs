//! Functions of Cyclone DDS, for the transport `dds` and its components. They are declared here by
//! hand, and are those of `c/cyclone.h`, which has their rules. Without the feature `cyclonedds`
//! the crate is empty.

#![cfg(feature = "cyclonedds")]

use std::ffi::{c_char, c_void};

/// A function that Cyclone DDS calls, with the context and the end.
pub type Event = unsafe extern "C" fn(context: *mut c_void, end: i32);
/// A function that takes a record of the log: 1 for an error, 2 for a warning, and 3.
pub type Log = unsafe extern "C" fn(priority: u32, message: *const c_char, length: usize);

/// The number of the type `stripline::Frames` of the IDL.
pub const FRAMES: u32 = 0;
/// That of `stripline::FloatSamples`.
pub const FLOAT: u32 = 1;
/// That of `stripline::ComplexFloatSamples`.
pub const COMPLEX_FLOAT: u32 = 2;
/// That of `stripline::ShortSamples`.
pub const SHORT: u32 = 3;
/// That of `stripline::ComplexShortSamples`.
pub const COMPLEX_SHORT: u32 = 4;
/// That of `stripline::OctetSamples`.
pub const OCTET: u32 = 5;

/// Terms that an end offers or asks for.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Whether what was written before a reader came is for it, too: 0 or 1.
    pub is_transient_local: u32,
    /// Whether all samples arrive: 0 or 1.
    pub is_reliable: u32,
    /// The samples that a writer keeps for late readers, and that wait in a reader; 0: all.
    pub depth: u32,
    /// The longest time between two samples, in nanoseconds; 0: any.
    pub deadline_ns: i64,
    /// How long a write may wait, in nanoseconds; 0: without limit.
    pub write_ns: i64,
}

/// The events of an end. It stays where it is until the end is deleted.
#[repr(C)]
#[derive(Debug)]
pub struct Events {
    /// Called when it has found another end, or lost one.
    pub matched: Event,
    /// Called when there may be samples.
    pub arrived: Event,
    /// Passed to both.
    pub context: *mut c_void,
}

/// A reader or a writer, and its topic.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct End {
    /// The topic, which is deleted after the end.
    pub topic: i32,
    /// The end.
    pub end: i32,
}

/// A sample that was taken.
#[repr(C)]
#[derive(Debug)]
pub struct Sample {
    /// What keeps it.
    pub owner: *mut c_void,
    /// Its serialised form: four bytes that name the encoding, and the fields.
    pub bytes: *const u8,
    /// The number of those bytes.
    pub length: usize,
    /// The writer that it came from.
    pub publication: u64,
}

/// Fields before samples.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Info {
    /// The index of the first sample.
    pub sample_index: u64,
    /// When it was taken, in nanoseconds since 1970 (UTC); 0: unknown.
    pub time_ns: u64,
    /// Samples per second; 0: unknown.
    pub rate_hz: f64,
    /// The centre frequency; 0: unknown.
    pub frequency_hz: f64,
}

unsafe extern "C" {
    /// Returns the version of the headers that this was built with.
    pub fn stripline_dds_version() -> *const c_char;
    /// Returns the name of a return code.
    pub fn stripline_dds_message(code: i32) -> *const c_char;
    /// Passes what Cyclone DDS would print to a function.
    pub fn stripline_dds_set_log(log: Log);
    /// Returns the file of the library, a text that stays; null: unknown.
    pub fn stripline_dds_library() -> *const c_char;
    /// Makes a domain of that number in this process, with a participant. Its properties are null,
    /// or pairs of names and values, behind which comes a pair of nulls.
    pub fn stripline_dds_open(
        domain: u32,
        configuration: *const c_char,
        properties: *const [*const c_char; 2],
        domain_out: *mut i32,
        participant_out: *mut i32,
    ) -> i32;
    /// Makes a writer.
    pub fn stripline_dds_create_writer(
        participant: i32,
        kind: u32,
        topic: *const c_char,
        terms: *const Terms,
        events: *const Events,
        end: *mut End,
    ) -> i32;
    /// Makes a reader.
    pub fn stripline_dds_create_reader(
        participant: i32,
        kind: u32,
        topic: *const c_char,
        terms: *const Terms,
        events: *const Events,
        end: *mut End,
    ) -> i32;
    /// Makes a reader that a wait set waits for.
    pub fn stripline_dds_create_polled_reader(
        participant: i32,
        kind: u32,
        topic: *const c_char,
        terms: *const Terms,
        end: *mut End,
    ) -> i32;
    /// Returns a wait set for the samples of a reader.
    pub fn stripline_dds_create_wait_set(participant: i32, reader: i32) -> i32;
    /// Waits until there is a sample.
    pub fn stripline_dds_wait(wait_set: i32) -> i32;
    /// Deletes anything. Returns once no event of it runs or can come.
    pub fn stripline_dds_delete(entity: i32) -> i32;
    /// Writes the number that the entity has on the network: 16 bytes.
    pub fn stripline_dds_guid(entity: i32, guid: *mut u8) -> i32;
    /// Writes that of the writer that a sample came from.
    pub fn stripline_dds_guid_of_publication(reader: i32, publication: u64, guid: *mut u8) -> i32;
    /// Returns how many readers a writer has found.
    pub fn stripline_dds_matched_readers(writer: i32) -> i32;
    /// Returns how many writers a reader has found.
    pub fn stripline_dds_matched_writers(reader: i32) -> i32;
    /// Waits until all readers have what was written, but not longer.
    pub fn stripline_dds_wait_for_acks(writer: i32, longest_ns: i64) -> i32;
    /// Writes a sample of the type `stripline::Frames`.
    pub fn stripline_dds_write_frames(
        writer: i32,
        key: u64,
        number: u64,
        bytes: *const u8,
        length: u32,
    ) -> i32;
    /// Writes a sample of another type. A complex sample has two elements.
    pub fn stripline_dds_write_samples(
        writer: i32,
        info: *const Info,
        samples: *const c_void,
        elements: u32,
    ) -> i32;
    /// Finds a writer (or reader) of that topic with another type: 1, and the name of that type.
    pub fn stripline_dds_find_other_type(
        participant: i32,
        kind: u32,
        topic: *const c_char,
        of_writers: i32,
        name: *mut c_char,
        length: usize,
    ) -> i32;
    /// Takes a sample: 1; 2: one without data; 0: nothing.
    pub fn stripline_dds_take(reader: i32, sample: *mut Sample) -> i32;
    /// Releases a sample that was taken.
    pub fn stripline_dds_release(sample: *mut Sample);
}
