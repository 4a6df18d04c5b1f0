//! The border to SoapySDR's functions in C: a device, and its streams.
//!
//! The functions of the library catch all exceptions of a driver, and report them by the status of
//! the calling thread.

use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use soapysdr_sys as sys;
use stripline::Complex;

/// The most entries of a list of a driver.
const ENTRIES_MAX: usize = 1000;

/// The direction of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// From the antenna.
    Receive,
    /// To the antenna.
    Transmit,
}

impl Way {
    fn code(self) -> c_int {
        let code = match self {
            Self::Receive => sys::SOAPY_SDR_RX,
            Self::Transmit => sys::SOAPY_SDR_TX,
        };
        code as c_int
    }
}

/// A sample in the layout of a format of SoapySDR.
pub(super) trait NativeSample: Copy + Default + Send + 'static {
    /// The name of the format in SoapySDR.
    const FORMAT: &'static CStr;
}

impl NativeSample for Complex<u8> {
    const FORMAT: &'static CStr = c"CU8";
}

impl NativeSample for Complex<i8> {
    const FORMAT: &'static CStr = c"CS8";
}

impl NativeSample for Complex<i16> {
    const FORMAT: &'static CStr = c"CS16";
}

impl NativeSample for Complex<f32> {
    const FORMAT: &'static CStr = c"CF32";
}

/// Returns the devices that fit the arguments, each as the keys and values that open the device.
pub(super) fn find(arguments: &str) -> Result<Vec<Vec<(String, String)>>, String> {
    let arguments = c_text(arguments)?;
    let mut count = 0;
    // SAFETY: the text ends with a zero, and the count is writable.
    let list = unsafe { sys::SoapySDRDevice_enumerateStrArgs(arguments.as_ptr(), &raw mut count) };
    if list.is_null() {
        return checked(Vec::new());
    }
    // SAFETY: the list has `count` entries until it is cleared below, and nothing else uses it.
    let found = unsafe { std::slice::from_raw_parts(list, count) }.iter().map(pairs).collect();
    // SAFETY: the list is from the library, and is not used again.
    unsafe { sys::SoapySDRKwargsList_clear(list, count) };
    Ok(found)
}

/// Returns the version of the library.
pub(super) fn version() -> String {
    // SAFETY: the library returns a text of its own that stays.
    borrowed(unsafe { sys::SoapySDR_getLibVersion() })
}

/// Returns the files of the drivers that are installed.
pub(super) fn modules() -> Vec<String> {
    let mut count = 0;
    // SAFETY: the count is writable.
    let list = unsafe { sys::SoapySDR_listModules(&raw mut count) };
    taken_list(list, count)
}

/// An open device. The device is closed with the last copy and the last stream.
///
/// SoapySDR returns one device for two openings with the same arguments in a process, and closes
/// the device with the second one.
pub(super) struct Device(NonNull<sys::SoapySDRDevice>);

// SAFETY: SoapySDR documents that a device may be called from several threads.
unsafe impl Send for Device {}
// SAFETY: the same.
unsafe impl Sync for Device {}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the device is open, and no stream uses it: a stream has a copy of the `Arc`.
        unsafe { sys::SoapySDRDevice_unmake(self.0.as_ptr()) };
    }
}

/// Declares a function that gets a value of a channel, or sets the value.
macro_rules! channel_calls {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty = $function:ident;)*) => {
        $(
            pub fn $name(&self, way: Way, channel: usize, $($argument: $type),*) -> Result<$result, String> {
                // SAFETY: the device is open, and the library copies the arguments.
                let found = unsafe { sys::$function(self.0.as_ptr(), way.code(), channel, $($argument),*) };
                checked(found)
            }
        )*
    };
}

impl Device {
    /// Opens the device that fits the arguments.
    pub fn open(arguments: &str) -> Result<Arc<Self>, String> {
        let arguments = c_text(arguments)?;
        // SAFETY: the text ends with a zero.
        let device = unsafe { sys::SoapySDRDevice_makeStrArgs(arguments.as_ptr()) };
        match NonNull::new(device) {
            Some(device) => Ok(Arc::new(Self(device))),
            None => Err(last_error()),
        }
    }

    /// Returns a number that all openings of a device share, until the device is closed.
    pub fn place(&self) -> usize {
        self.0.as_ptr().addr()
    }

    channel_calls! {
        frequency() -> f64 = SoapySDRDevice_getFrequency;
        sample_rate() -> f64 = SoapySDRDevice_getSampleRate;
        set_sample_rate_hz(rate: f64) -> c_int = SoapySDRDevice_setSampleRate;
        bandwidth() -> f64 = SoapySDRDevice_getBandwidth;
        set_bandwidth_hz(bandwidth: f64) -> c_int = SoapySDRDevice_setBandwidth;
        gain() -> f64 = SoapySDRDevice_getGain;
        set_gain_db(gain: f64) -> c_int = SoapySDRDevice_setGain;
        has_agc() -> bool = SoapySDRDevice_hasGainMode;
        is_agc_on() -> bool = SoapySDRDevice_getGainMode;
        set_agc(automatic: bool) -> c_int = SoapySDRDevice_setGainMode;
        has_correction() -> bool = SoapySDRDevice_hasFrequencyCorrection;
        correction() -> f64 = SoapySDRDevice_getFrequencyCorrection;
        set_correction_ppm(correction: f64) -> c_int = SoapySDRDevice_setFrequencyCorrection;
    }

    /// Returns the number of channels.
    pub fn channels(&self, way: Way) -> Result<usize, String> {
        // SAFETY: the device is open.
        checked(unsafe { sys::SoapySDRDevice_getNumChannels(self.0.as_ptr(), way.code()) })
    }

    /// Sets the frequency of the whole tuner.
    pub fn set_frequency_hz(&self, way: Way, channel: usize, frequency: f64) -> Result<(), String> {
        let none = sys::SoapySDRKwargs { size: 0, keys: ptr::null_mut(), vals: ptr::null_mut() };
        // SAFETY: the device is open, and the arguments are empty.
        let code = unsafe {
            sys::SoapySDRDevice_setFrequency(self.0.as_ptr(), way.code(), channel, frequency, &raw const none)
        };
        checked(code).map(drop)
    }

    /// Returns the formats of streams, and the native format with its full scale.
    pub fn formats(&self, way: Way, channel: usize) -> Result<(Vec<String>, String), String> {
        let (mut count, mut full_scale) = (0, 0.0);
        // SAFETY: the device is open, and the count is writable.
        let list = unsafe {
            sys::SoapySDRDevice_getStreamFormats(self.0.as_ptr(), way.code(), channel, &raw mut count)
        };
        let formats = taken_list(list, count);
        // SAFETY: the device is open, and the number is writable.
        let native = unsafe {
            taken(sys::SoapySDRDevice_getNativeStreamFormat(
                self.0.as_ptr(),
                way.code(),
                channel,
                &raw mut full_scale,
            ))
        }?;
        Ok((formats, native))
    }

    /// Returns the stages of the gain.
    pub fn gain_stages(&self, way: Way, channel: usize) -> Vec<String> {
        let mut count = 0;
        // SAFETY: the device is open, and the count is writable.
        let list =
            unsafe { sys::SoapySDRDevice_listGains(self.0.as_ptr(), way.code(), channel, &raw mut count) };
        taken_list(list, count)
    }

    /// Returns the gain of a stage.
    pub fn stage_gain(&self, way: Way, channel: usize, stage: &str) -> Result<f64, String> {
        let stage = c_text(stage)?;
        // SAFETY: the device is open, and the text ends with a zero.
        let gain = unsafe {
            sys::SoapySDRDevice_getGainElement(self.0.as_ptr(), way.code(), channel, stage.as_ptr())
        };
        checked(gain)
    }

    /// Sets the gain of a stage.
    pub fn set_stage_gain(&self, way: Way, channel: usize, stage: &str, gain_db: f64) -> Result<(), String> {
        let stage = c_text(stage)?;
        // SAFETY: the device is open, and the text ends with a zero.
        let code = unsafe {
            sys::SoapySDRDevice_setGainElement(self.0.as_ptr(), way.code(), channel, stage.as_ptr(), gain_db)
        };
        checked(code).map(drop)
    }

    /// Returns the range of the whole gain, with the step.
    pub fn whole_gain_range(&self, way: Way, channel: usize) -> Option<[f64; 3]> {
        // SAFETY: the device is open.
        let range = unsafe { sys::SoapySDRDevice_getGainRange(self.0.as_ptr(), way.code(), channel) };
        checked(numbers(&range)).ok()
    }

    /// Returns the range of the gain of a stage, with the step.
    pub fn stage_range(&self, way: Way, channel: usize, stage: &str) -> Option<[f64; 3]> {
        let stage = c_text(stage).ok()?;
        // SAFETY: the device is open, and the text ends with a zero.
        let range = unsafe {
            sys::SoapySDRDevice_getGainElementRange(self.0.as_ptr(), way.code(), channel, stage.as_ptr())
        };
        checked(numbers(&range)).ok()
    }

    /// Returns the ranges of the frequency, with the steps.
    pub fn frequency_ranges(&self, way: Way, channel: usize) -> Vec<[f64; 3]> {
        let mut count = 0;
        // SAFETY: the device is open, and the count is writable.
        let list = unsafe {
            sys::SoapySDRDevice_getFrequencyRange(self.0.as_ptr(), way.code(), channel, &raw mut count)
        };
        taken_ranges(list, count)
    }

    /// Returns the ranges of the sample rate, with the steps.
    pub fn rate_ranges(&self, way: Way, channel: usize) -> Vec<[f64; 3]> {
        let mut count = 0;
        // SAFETY: the device is open, and the count is writable.
        let list = unsafe {
            sys::SoapySDRDevice_getSampleRateRange(self.0.as_ptr(), way.code(), channel, &raw mut count)
        };
        taken_ranges(list, count)
    }

    /// Returns the ranges of the bandwidth, with the steps.
    pub fn bandwidth_ranges(&self, way: Way, channel: usize) -> Vec<[f64; 3]> {
        let mut count = 0;
        // SAFETY: the device is open, and the count is writable.
        let list = unsafe {
            sys::SoapySDRDevice_getBandwidthRange(self.0.as_ptr(), way.code(), channel, &raw mut count)
        };
        taken_ranges(list, count)
    }

    /// Returns the names of the antennas.
    pub fn antennas(&self, way: Way, channel: usize) -> Vec<String> {
        let mut count = 0;
        // SAFETY: the device is open, and the count is writable.
        let list =
            unsafe { sys::SoapySDRDevice_listAntennas(self.0.as_ptr(), way.code(), channel, &raw mut count) };
        taken_list(list, count)
    }

    /// Returns the name of the antenna.
    pub fn antenna(&self, way: Way, channel: usize) -> Result<String, String> {
        // SAFETY: the device is open.
        unsafe { taken(sys::SoapySDRDevice_getAntenna(self.0.as_ptr(), way.code(), channel)) }
    }

    /// Selects an antenna.
    pub fn set_antenna(&self, way: Way, channel: usize, name: &str) -> Result<(), String> {
        let name = c_text(name)?;
        // SAFETY: the device is open, and the text ends with a zero.
        let code =
            unsafe { sys::SoapySDRDevice_setAntenna(self.0.as_ptr(), way.code(), channel, name.as_ptr()) };
        checked(code).map(drop)
    }

    /// Returns the source of the clock.
    pub fn clock_source(&self) -> Result<String, String> {
        // SAFETY: the device is open.
        unsafe { taken(sys::SoapySDRDevice_getClockSource(self.0.as_ptr())) }
    }

    /// Selects the source of the clock.
    pub fn set_clock_source(&self, name: &str) -> Result<(), String> {
        let name = c_text(name)?;
        // SAFETY: the device is open, and the text ends with a zero.
        checked(unsafe { sys::SoapySDRDevice_setClockSource(self.0.as_ptr(), name.as_ptr()) }).map(drop)
    }

    /// Returns the source of the time.
    pub fn time_source(&self) -> Result<String, String> {
        // SAFETY: the device is open.
        unsafe { taken(sys::SoapySDRDevice_getTimeSource(self.0.as_ptr())) }
    }

    /// Selects the source of the time.
    pub fn set_time_source(&self, name: &str) -> Result<(), String> {
        let name = c_text(name)?;
        // SAFETY: the device is open, and the text ends with a zero.
        checked(unsafe { sys::SoapySDRDevice_setTimeSource(self.0.as_ptr(), name.as_ptr()) }).map(drop)
    }

    /// Returns the time of the device's counter; `None` for a device without one.
    pub fn hardware_time_ns(&self) -> Option<i64> {
        if !self.has_time(c"") {
            return None;
        }
        // SAFETY: the device is open, and the text ends with a zero.
        checked(unsafe { sys::SoapySDRDevice_getHardwareTime(self.0.as_ptr(), c"".as_ptr()) }).ok()
    }

    /// Returns whether settings can be changed at a time of the device's counter.
    pub fn is_timed(&self) -> bool {
        self.has_time(c"CMD")
    }

    /// Sets the time at which the device makes the following settings; 0: at once.
    pub fn set_command_time_ns(&self, time_ns: i64) -> Result<(), String> {
        // SAFETY: the device is open, and the text ends with a zero.
        let code = unsafe { sys::SoapySDRDevice_setHardwareTime(self.0.as_ptr(), time_ns, c"CMD".as_ptr()) };
        checked(code).map(drop)
    }

    fn has_time(&self, kind: &CStr) -> bool {
        // SAFETY: the device is open, and the text ends with a zero.
        unsafe { sys::SoapySDRDevice_hasHardwareTime(self.0.as_ptr(), kind.as_ptr()) }
    }

    /// Returns the sensors of the whole device, with their values.
    pub fn sensors(&self) -> Vec<(String, Result<String, String>)> {
        let mut count = 0;
        // SAFETY: the device is open, and the count is writable.
        let list = unsafe { sys::SoapySDRDevice_listSensors(self.0.as_ptr(), &raw mut count) };
        let read = |name: String| {
            let value = c_text(&name).and_then(|key| {
                // SAFETY: the device is open, and the text ends with a zero.
                unsafe { taken(sys::SoapySDRDevice_readSensor(self.0.as_ptr(), key.as_ptr())) }
            });
            (name, value)
        };
        taken_list(list, count).into_iter().map(read).collect()
    }
}

/// A stream of samples of the type `T`.
pub(super) struct Stream<T> {
    device: Arc<Device>,
    handle: NonNull<sys::SoapySDRStream>,
    is_active: bool,
    channels: usize,
    /// The buffers of the channels in a call.
    places: Vec<*mut T>,
}

// SAFETY: a stream is used by one thread at a time, and the pointers only within a call.
unsafe impl<T> Send for Stream<T> {}

/// The outcome of a read.
#[derive(Debug, PartialEq)]
pub(super) enum ReadOutcome {
    /// This number of samples of each channel, and the hardware time of the first one.
    Samples(usize, Option<i64>),
    /// Nothing has arrived in time.
    Timeout,
    /// The driver has dropped samples.
    Overflow,
    /// The driver reports an error.
    Failed(String),
}

/// The outcome of a question for the status of transmitted samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TransmitStatus {
    /// There is nothing to report.
    Nothing,
    /// The device had no samples.
    Underflow,
    /// A burst came too late.
    Late,
    /// Another fault, by its code.
    Fault(i32),
    /// The driver does not report a status.
    Unsupported,
}

impl<T: NativeSample> Stream<T> {
    /// Sets up a stream of these channels. The stream does not run.
    pub fn new(device: &Arc<Device>, way: Way, channels: &[usize]) -> Result<Self, String> {
        let none = sys::SoapySDRKwargs { size: 0, keys: ptr::null_mut(), vals: ptr::null_mut() };
        // SAFETY: the device is open, and the library copies the arguments.
        let handle = unsafe {
            sys::SoapySDRDevice_setupStream(
                device.0.as_ptr(),
                way.code(),
                T::FORMAT.as_ptr(),
                channels.as_ptr(),
                channels.len(),
                &raw const none,
            )
        };
        let handle = NonNull::new(handle).ok_or_else(last_error)?;
        let (device, channels) = (Arc::clone(device), channels.len());
        Ok(Self { device, handle, is_active: false, channels, places: vec![ptr::null_mut(); channels] })
    }

    /// Returns the number of samples of a channel that the driver prefers in a call.
    pub fn samples_preferred(&self) -> usize {
        // SAFETY: the stream is open.
        unsafe { sys::SoapySDRDevice_getStreamMTU(self.device.0.as_ptr(), self.handle.as_ptr()) }
    }

    /// Starts the stream.
    pub fn activate(&mut self) -> Result<(), String> {
        // SAFETY: the stream is open.
        let code = unsafe {
            sys::SoapySDRDevice_activateStream(self.device.0.as_ptr(), self.handle.as_ptr(), 0, 0, 0)
        };
        self.is_active = code == 0;
        if code == 0 { Ok(()) } else { Err(error_text(code)) }
    }

    /// Stops the stream.
    pub fn deactivate(&mut self) -> Result<(), String> {
        if !std::mem::take(&mut self.is_active) {
            return Ok(());
        }
        // SAFETY: the stream is open.
        let code = unsafe {
            sys::SoapySDRDevice_deactivateStream(self.device.0.as_ptr(), self.handle.as_ptr(), 0, 0)
        };
        if code == 0 { Ok(()) } else { Err(error_text(code)) }
    }

    /// Reads samples of all channels. The buffer has an equal part for each channel.
    ///
    /// # Panics
    /// With a buffer that has no whole parts.
    pub fn read(&mut self, buffer: &mut [T], timeout_us: c_long) -> ReadOutcome {
        let count = buffer.len() / self.channels;
        assert_eq!(buffer.len(), count * self.channels);
        for (place, part) in self.places.iter_mut().zip(buffer.chunks_exact_mut(count.max(1))) {
            *place = part.as_mut_ptr();
        }
        let (mut flags, mut time_ns) = (0, 0);
        // SAFETY: the stream is open. Each channel has room for `count` samples of this format.
        let code = unsafe {
            sys::SoapySDRDevice_readStream(
                self.device.0.as_ptr(),
                self.handle.as_ptr(),
                self.places.as_ptr().cast(),
                count,
                &raw mut flags,
                &raw mut time_ns,
                timeout_us,
            )
        };
        let has_time = flags & sys::SOAPY_SDR_HAS_TIME as c_int != 0;
        match (usize::try_from(code), code) {
            (Ok(0), _) | (_, sys::SOAPY_SDR_TIMEOUT) => ReadOutcome::Timeout,
            (Ok(samples), _) if samples > count => ReadOutcome::Failed(format!(
                "the driver returned {samples} samples of a channel where {count} were asked for"
            )),
            (Ok(samples), _) => ReadOutcome::Samples(samples, has_time.then_some(time_ns)),
            (_, sys::SOAPY_SDR_OVERFLOW) => ReadOutcome::Overflow,
            _ => ReadOutcome::Failed(error_text(code)),
        }
    }

    /// Writes a range of the samples of each channel. The buffer has an equal part for each
    /// channel. Returns the number of samples of a channel that were taken.
    ///
    /// # Panics
    /// With a range beyond a channel's part.
    pub fn write(
        &mut self,
        buffer: &[T],
        range: std::ops::Range<usize>,
        time_ns: Option<i64>,
        is_end: bool,
        timeout_us: c_long,
    ) -> Result<usize, String> {
        let each = buffer.len() / self.channels;
        assert!(range.start <= range.end && range.end <= each);
        for (number, place) in self.places.iter_mut().enumerate() {
            *place = buffer[number * each + range.start..].as_ptr().cast_mut();
        }
        let mut flags = 0;
        if time_ns.is_some() {
            flags |= sys::SOAPY_SDR_HAS_TIME as c_int;
        }
        if is_end {
            flags |= sys::SOAPY_SDR_END_BURST as c_int;
        }
        // SAFETY: the stream is open. Each channel has `range.len()` samples, which are only read.
        let code = unsafe {
            sys::SoapySDRDevice_writeStream(
                self.device.0.as_ptr(),
                self.handle.as_ptr(),
                self.places.as_ptr().cast::<*const c_void>(),
                range.len(),
                &raw mut flags,
                time_ns.unwrap_or(0),
                timeout_us,
            )
        };
        match (usize::try_from(code), code) {
            (Ok(taken), _) if taken > range.len() => {
                Err(format!("the driver took {taken} samples of a channel where {} were given", range.len()))
            }
            (Ok(taken), _) => Ok(taken),
            (_, sys::SOAPY_SDR_TIMEOUT) => Ok(0),
            _ => Err(error_text(code)),
        }
    }

    /// Returns the next status of transmitted samples, after a wait of at most this time.
    pub fn transmit_status(&mut self, timeout_us: c_long) -> TransmitStatus {
        let (mut mask, mut flags, mut time_ns) = (0, 0, 0);
        // SAFETY: the stream is open, and the numbers are writable.
        let code = unsafe {
            sys::SoapySDRDevice_readStreamStatus(
                self.device.0.as_ptr(),
                self.handle.as_ptr(),
                &raw mut mask,
                &raw mut flags,
                &raw mut time_ns,
                timeout_us,
            )
        };
        match code {
            // A status without a fault, as the acknowledgement of a burst.
            0 | sys::SOAPY_SDR_TIMEOUT => TransmitStatus::Nothing,
            sys::SOAPY_SDR_UNDERFLOW => TransmitStatus::Underflow,
            sys::SOAPY_SDR_TIME_ERROR => TransmitStatus::Late,
            sys::SOAPY_SDR_NOT_SUPPORTED => TransmitStatus::Unsupported,
            other => TransmitStatus::Fault(other),
        }
    }
}

impl<T> Drop for Stream<T> {
    fn drop(&mut self) {
        let (device, handle) = (self.device.0.as_ptr(), self.handle.as_ptr());
        // SAFETY: the stream is open, and is not used again. The device is still open.
        unsafe {
            if self.is_active {
                sys::SoapySDRDevice_deactivateStream(device, handle, 0, 0);
            }
            sys::SoapySDRDevice_closeStream(device, handle);
        }
    }
}

/// Returns the value if the last call of this thread was without an exception.
fn checked<T>(value: T) -> Result<T, String> {
    // SAFETY: the status is of this thread.
    if unsafe { sys::SoapySDRDevice_lastStatus() } == 0 { Ok(value) } else { Err(last_error()) }
}

fn last_error() -> String {
    // SAFETY: the text is of this thread, and stays until the next call.
    let text = borrowed(unsafe { sys::SoapySDRDevice_lastError() });
    if text.is_empty() { "the driver gives no reason".into() } else { text }
}

/// Returns the name of an error's code, and the reason if the driver gives one.
pub(super) fn error_text(code: i32) -> String {
    // SAFETY: the library returns a text of its own that stays.
    let name = borrowed(unsafe { sys::SoapySDR_errToStr(code) });
    // SAFETY: the text is of this thread, and stays until the next call.
    let reason = borrowed(unsafe { sys::SoapySDRDevice_lastError() });
    if reason.is_empty() { name } else { format!("{name}: {reason}") }
}

fn c_text(text: &str) -> Result<CString, String> {
    CString::new(text).map_err(|_| format!("{text:?} has a zero character; remove it"))
}

/// Copies a text of the library.
fn borrowed(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: a text of the library ends with a zero.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Takes the text that a call has returned.
///
/// # Safety
/// The text is null, or from the library and not used again.
unsafe fn taken(text: *mut c_char) -> Result<String, String> {
    let found = borrowed(text);
    let outcome = checked(found);
    // SAFETY: the library allocated the text. A null pointer is allowed.
    unsafe { sys::SoapySDR_free(text.cast()) };
    outcome
}

/// Takes a list of texts that a call has returned.
fn taken_list(mut list: *mut *mut c_char, count: usize) -> Vec<String> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: the list has `count` texts until it is cleared below.
    let texts = unsafe { std::slice::from_raw_parts(list, count) };
    let texts = texts.iter().take(ENTRIES_MAX).map(|text| borrowed(*text)).collect();
    // SAFETY: the list is from the library, and is not used again.
    unsafe { sys::SoapySDRStrings_clear(&raw mut list, count) };
    texts
}

/// Takes a list of ranges that a call has returned.
fn taken_ranges(list: *mut sys::SoapySDRRange, count: usize) -> Vec<[f64; 3]> {
    if list.is_null() {
        return Vec::new();
    }
    // SAFETY: the list has `count` ranges until it is freed below.
    let ranges = unsafe { std::slice::from_raw_parts(list, count) };
    let ranges = ranges.iter().take(ENTRIES_MAX).map(numbers).collect();
    // SAFETY: the library allocated the list, which is not used again.
    unsafe { sys::SoapySDR_free(list.cast()) };
    ranges
}

fn numbers(range: &sys::SoapySDRRange) -> [f64; 3] {
    [range.minimum, range.maximum, range.step]
}

fn pairs(arguments: &sys::SoapySDRKwargs) -> Vec<(String, String)> {
    let pair = |index: usize| {
        // SAFETY: there are `size` keys and values, each with a zero at the end.
        unsafe { (borrowed(*arguments.keys.add(index)), borrowed(*arguments.vals.add(index))) }
    };
    (0..arguments.size.min(ENTRIES_MAX)).map(pair).collect()
}
