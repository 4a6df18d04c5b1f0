//! Functions of Cyclone DDS for the transport `dds` and the DDS components. The functions are
//! declared here by hand. `c/cyclone.h` has the same functions and the rules for calling them.
//! Without the feature `cyclonedds` the crate is empty.

#![cfg(feature = "cyclonedds")]

use std::ffi::{c_char, c_void};

/// A function that Cyclone DDS calls with the context and the end.
pub type Event = unsafe extern "C" fn(context: *mut c_void, end: i32);
/// A function that takes a record of the log: priority 1 for an error, 2 for a warning, and 3 for
/// anything else.
pub type Log = unsafe extern "C" fn(priority: u32, message: *const c_char, length: usize);

/// The number of the type `stripline::Frames` in the IDL.
pub const FRAMES: u32 = 0;
/// The number of the type `stripline::FloatSamples`.
pub const FLOAT: u32 = 1;
/// The number of the type `stripline::ComplexFloatSamples`.
pub const COMPLEX_FLOAT: u32 = 2;
/// The number of the type `stripline::ShortSamples`.
pub const SHORT: u32 = 3;
/// The number of the type `stripline::ComplexShortSamples`.
pub const COMPLEX_SHORT: u32 = 4;
/// The number of the type `stripline::OctetSamples`.
pub const OCTET: u32 = 5;

/// Terms that an end offers or requests.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// Whether a reader also gets samples written before it joined: 0 or 1.
    pub is_transient_local: u32,
    /// Whether all samples arrive: 0 or 1.
    pub is_reliable: u32,
    /// The number of samples that a writer keeps for late readers, or that a reader queues; 0 for
    /// all.
    pub depth: u32,
    /// The longest time between two samples, in nanoseconds; 0 for any.
    pub deadline_ns: i64,
    /// The longest time for which a write may wait, in nanoseconds; 0 for no limit.
    pub write_ns: i64,
}

/// The events of an end. The structure must not move until the end is deleted.
#[repr(C)]
#[derive(Debug)]
pub struct Events {
    /// Called when the end has found another end or lost one.
    pub matched: Event,
    /// Called when there may be samples.
    pub arrived: Event,
    /// Passed to both functions.
    pub context: *mut c_void,
}

/// A reader or a writer, with the topic.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct End {
    /// The topic, which is deleted after the reader or writer.
    pub topic: i32,
    /// The reader or writer.
    pub end: i32,
}

/// A sample that was taken.
#[repr(C)]
#[derive(Debug)]
pub struct Sample {
    /// The object that keeps the sample.
    pub owner: *mut c_void,
    /// The serialised form of the sample: four bytes that name the encoding, and then the fields.
    pub bytes: *const u8,
    /// The number of these bytes.
    pub length: usize,
    /// The writer from which the sample came.
    pub publication: u64,
}

/// The fields that stand before the samples.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Info {
    /// The index of the first sample.
    pub sample_index: u64,
    /// The time at which the first sample was taken, in nanoseconds since 1970 (UTC); 0 if unknown.
    pub time_ns: u64,
    /// Samples per second; 0 if unknown.
    pub rate_hz: f64,
    /// The centre frequency; 0 if unknown.
    pub frequency_hz: f64,
}

unsafe extern "C" {
    /// Returns the version of the headers with which this crate was built.
    pub fn stripline_dds_version() -> *const c_char;
    /// Returns the name of a return code.
    pub fn stripline_dds_message(code: i32) -> *const c_char;
    /// Passes the lines that Cyclone DDS would print to a function.
    pub fn stripline_dds_set_log(log: Log);
    /// Returns the file of the library, as a string that stays valid; null if unknown.
    pub fn stripline_dds_library() -> *const c_char;
    /// Creates a domain of that number in this process, with a participant. The properties are
    /// null, or pairs of names and values that end with a pair of nulls.
    pub fn stripline_dds_open(
        domain: u32,
        configuration: *const c_char,
        properties: *const [*const c_char; 2],
        domain_out: *mut i32,
        participant_out: *mut i32,
    ) -> i32;
    /// Creates a writer.
    pub fn stripline_dds_create_writer(
        participant: i32,
        kind: u32,
        topic: *const c_char,
        terms: *const Terms,
        events: *const Events,
        end: *mut End,
    ) -> i32;
    /// Creates a reader.
    pub fn stripline_dds_create_reader(
        participant: i32,
        kind: u32,
        topic: *const c_char,
        terms: *const Terms,
        events: *const Events,
        end: *mut End,
    ) -> i32;
    /// Creates a reader for use with a wait set.
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
    /// Deletes an entity of any kind. Returns once no event of the entity runs or can follow.
    pub fn stripline_dds_delete(entity: i32) -> i32;
    /// Writes the number of the entity on the network: 16 bytes.
    pub fn stripline_dds_guid(entity: i32, guid: *mut u8) -> i32;
    /// Writes the number of the writer from which a sample came: 16 bytes.
    pub fn stripline_dds_guid_of_publication(reader: i32, publication: u64, guid: *mut u8) -> i32;
    /// Returns the number of readers that a writer has found.
    pub fn stripline_dds_matched_readers(writer: i32) -> i32;
    /// Returns the number of writers that a reader has found.
    pub fn stripline_dds_matched_writers(reader: i32) -> i32;
    /// Waits until all readers have received all written samples, but not longer than `longest_ns`.
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
    /// Finds a writer (or reader) of that topic with another type. Returns 1 if it found one, and
    /// writes the name of that type.
    pub fn stripline_dds_find_other_type(
        participant: i32,
        kind: u32,
        topic: *const c_char,
        of_writers: i32,
        name: *mut c_char,
        length: usize,
    ) -> i32;
    /// Takes a sample. Returns 1 for a sample, 2 for a sample without data, and 0 for no sample.
    pub fn stripline_dds_take(reader: i32, sample: *mut Sample) -> i32;
    /// Releases a sample that was taken.
    pub fn stripline_dds_release(sample: *mut Sample);
}
