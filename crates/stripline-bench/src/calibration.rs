//! A calibration: a file with the cost of a packet over each transport on one machine.
//!
//! [`measure`] runs the ladder's cases of each transport in turn. `stripline calibrate` keeps the
//! result, and `stripline check --explain` shows it beside the candidates of a connection. A
//! calibration explains a choice but never makes one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::OTHERS_SHARE_MAX;
use crate::ladder::{Settings, costs};
use crate::machine::{allowed_cpus, printable};
use crate::usage::RunWatch;
use crate::{Disturbance, Machine, Progress};

/// The maximum size of the file in bytes.
pub const FILE_BYTES_MAX: usize = 64 << 10;
/// The version of the file format.
const FORMAT: u32 = 1;
/// The maximum number of transports in a file, and of sizes for each transport.
const TRANSPORTS_MAX: usize = 32;
const SIZES_MAX: usize = 8;
/// The maximum length of the name of a transport, and of the version of a program.
const NAME_BYTES_MAX: usize = 64;
/// The maximum time of a packet in nanoseconds.
const NS_MAX: f64 = 100e9;
/// The latest time of a measurement, in seconds since 1970: in the year 9999.
const MEASURED_S_MAX: u64 = 253_000_000_000;

/// The costs of a packet over each transport, and the machine of the measurement. A value of this
/// type is always valid: it comes from a measurement, or from a file that has passed every check.
///
/// ```
/// use stripline_bench::calibration::Calibration;
///
/// let error = Calibration::parse(b"{}").unwrap_err();
/// assert!(error.contains("format"), "{error}");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Calibration(Contents);

/// The contents of a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Contents {
    format: u32,
    program: String,
    /// Seconds since 1970.
    measured_s: u64,
    machine: Machine,
    runs: u32,
    others_share: Option<f64>,
    transports: Vec<TransportCosts>,
}

/// The version of the file format, which is read before everything else.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

/// The costs of a packet over one transport, for each measured size.
///
/// ```
/// use stripline_bench::calibration::TransportCosts;
///
/// let text = r#"{"transport":"shm","costs":[
///     {"bytes":64,"asleep_ns":2100.0,"spinning_ns":280.0,"per_packet_ns":20.0}]}"#;
/// let shm: TransportCosts = serde_json::from_str(text).unwrap();
/// assert!(shm.costs[0].spinning_ns < shm.costs[0].asleep_ns);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransportCosts {
    /// The name of the transport.
    pub transport: String,
    /// The costs, sorted by size.
    pub costs: Vec<Cost>,
}

/// The cost of a packet of one size. Each figure is the median over runs of the median over blocks.
///
/// ```
/// use stripline_bench::calibration::Cost;
///
/// let cost = Cost { bytes: 1000, asleep_ns: 5e3, spinning_ns: 2e3, per_packet_ns: 500.0 };
/// assert_eq!(cost.bytes_per_s(), 2e9);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Bytes of the payload.
    pub bytes: usize,
    /// Nanoseconds one way to a sleeping receiver.
    pub asleep_ns: f64,
    /// Nanoseconds one way to a spinning receiver.
    pub spinning_ns: f64,
    /// Nanoseconds per packet at full rate.
    pub per_packet_ns: f64,
}

impl Cost {
    /// Returns the bytes per second at full rate.
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.per_packet_ns
    }
}

impl Calibration {
    /// Parses a file.
    ///
    /// # Errors
    /// A sentence that names the problem: another format, invalid JSON, or a value out of range.
    ///
    /// ```
    /// use stripline_bench::calibration::Calibration;
    ///
    /// let error = Calibration::parse(b"{\"format\": 99}").unwrap_err();
    /// assert!(error.contains("99"), "{error}");
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self, String> {
        if bytes.len() > FILE_BYTES_MAX {
            return Err(format!("it has more than {FILE_BYTES_MAX} bytes"));
        }
        // The parser's messages contain names from the file.
        let problem =
            |what: &str, error: serde_json::Error| format!("{what}: {}", printable(&error.to_string()));
        let Format { format } =
            serde_json::from_slice(bytes).map_err(|error| problem("it is not a calibration", error))?;
        if format != FORMAT {
            return Err(format!("it has format {format}, and this program reads format {FORMAT}"));
        }
        let contents: Contents =
            serde_json::from_slice(bytes).map_err(|error| problem("it is damaged", error))?;
        contents.check().map(|()| Self(contents))
    }

    /// Returns the version of the program that made the measurement, in the form of
    /// [`program_version`].
    pub fn program(&self) -> &str {
        &self.0.program
    }

    /// Returns the time of the measurement.
    pub fn measured(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.0.measured_s)
    }

    /// Returns the machine of the measurement.
    pub fn machine(&self) -> &Machine {
        &self.0.machine
    }

    /// Returns the number of runs behind each figure.
    pub fn runs(&self) -> u32 {
        self.0.runs
    }

    /// Returns the share of all processors that other programs used during the measurement, 0 to 1;
    /// `None` if unknown.
    pub fn others_share(&self) -> Option<f64> {
        self.0.others_share
    }

    /// Returns whether other programs used more than [`OTHERS_SHARE_MAX`] of the processors.
    pub fn was_busy(&self) -> bool {
        self.0.others_share.is_some_and(|share| share > OTHERS_SHARE_MAX)
    }

    /// Returns the costs of each measured transport.
    pub fn transports(&self) -> &[TransportCosts] {
        &self.0.transports
    }

    /// Returns the costs of a transport, sorted by size; `None` if it was not measured.
    pub fn of(&self, transport: &str) -> Option<&[Cost]> {
        let own = self.0.transports.iter().find(|own| own.transport == transport);
        own.map(|own| &own.costs[..])
    }

    /// Returns the reason why the figures do not describe this program on this machine; `None` if
    /// they do.
    pub fn misfit(&self, machine: &Machine) -> Option<String> {
        if self.0.program != program_version() {
            let (then, now) = (&self.0.program, program_version());
            return Some(format!("it was measured by version {then}, and this is version {now}"));
        }
        let differences = machine.differences(&self.0.machine);
        (!differences.is_empty()).then(|| format!("it is of another machine: {}", differences.join("; ")))
    }
}

impl Contents {
    fn check(&self) -> Result<(), String> {
        let word = |name: &str, text: &str| {
            let is_word = !text.is_empty() && text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
            match is_word && text.len() <= NAME_BYTES_MAX {
                true => Ok(()),
                false => Err(format!("{name} is not printable text of 1 to {NAME_BYTES_MAX} bytes")),
            }
        };
        word("its version", &self.program)?;
        if self.measured_s > MEASURED_S_MAX {
            return Err(format!("it was measured {} s after 1970", self.measured_s));
        }
        if self.runs == 0 {
            return Err("it has no runs".into());
        }
        if self.others_share.is_some_and(|share| !(0.0..=1.0).contains(&share)) {
            return Err("the share of other programs is not from 0 to 1".into());
        }
        self.machine.check()?;
        let entries = |name: &str, count: usize, most: usize| match (1..=most).contains(&count) {
            true => Ok(()),
            false => Err(format!("it has {count} {name}, which must be 1 to {most}")),
        };
        entries("transports", self.transports.len(), TRANSPORTS_MAX)?;
        for (index, TransportCosts { transport, costs }) in self.transports.iter().enumerate() {
            word("the name of a transport", transport)?;
            if self.transports[..index].iter().any(|earlier| earlier.transport == *transport) {
                return Err(format!("it has the transport `{transport}` twice"));
            }
            entries("sizes", costs.len(), SIZES_MAX)?;
            if !costs.is_sorted_by(|one, next| one.bytes < next.bytes) {
                return Err(format!("the sizes of `{transport}` do not ascend"));
            }
            for Cost { bytes, asleep_ns, spinning_ns, per_packet_ns } in costs {
                if !(1..=1 << 30).contains(bytes) {
                    return Err(format!("a packet of {bytes} bytes over `{transport}`"));
                }
                let is_time = |ns: &f64| *ns > 0.0 && *ns <= NS_MAX;
                if ![asleep_ns, spinning_ns, per_packet_ns].into_iter().all(is_time) {
                    return Err(format!(
                        "a time of `{transport}` at {bytes} B is not above 0 and up to {NS_MAX} ns"
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The result of [`measure`].
///
/// ```no_run
/// use stripline_bench::calibration::measure;
/// use stripline_bench::ladder::Settings;
///
/// let measured = measure(&Settings { quick: true, ..Settings::default() }, &mut |_| ())?;
/// assert!(!measured.interrupted);
/// # Ok::<(), String>(())
/// ```
#[derive(Clone, Debug)]
pub struct CalibrationResult {
    /// The calibration.
    pub calibration: Calibration,
    /// Notes on transports that could not be measured, with the reasons.
    pub notes: Vec<String>,
    /// Whether Ctrl-C ended the measurement early, so that the figures have fewer runs than
    /// requested.
    pub interrupted: bool,
}

/// Measures all transports of this program on this machine. The calibration takes about two
/// minutes, or 15 s for a quick measurement. The sizes in the settings have no effect. Ctrl-C ends
/// the measurement early.
///
/// # Errors
/// If the settings are wrong, if no transport could be measured at all sizes, or if Ctrl-C came
/// first.
///
/// ```no_run
/// use stripline_bench::calibration::measure;
/// use stripline_bench::ladder::Settings;
///
/// let measured = measure(&Settings::default(), &mut |progress| eprintln!("{}", progress.doing))?;
/// println!("{:?}", measured.calibration.of("shm"));
/// # Ok::<(), String>(())
/// ```
pub fn measure(
    settings: &Settings,
    observer: &mut dyn FnMut(&Progress),
) -> Result<CalibrationResult, String> {
    let (transports, runs) = costs::measure(settings, observer)?;
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let contents = Contents {
        format: FORMAT,
        program: program_version(),
        measured_s: since.as_secs(),
        machine: Machine::here(),
        // The first round may have been interrupted.
        runs: runs.completed.max(1),
        others_share: runs.others_share(),
        transports,
    };
    if contents.transports.is_empty() {
        let reason = runs.notes.first().map_or("interrupted", String::as_str);
        return Err(format!("no transport was measured at all sizes: {reason}"));
    }
    contents.check().map_err(|problem| format!("the measurement is unusable: {problem}"))?;
    let calibration = Calibration(contents);
    Ok(CalibrationResult { calibration, notes: runs.notes, interrupted: runs.interrupted })
}

/// Returns the version of this program and the kind of build, because a debug build is slower.
///
/// ```
/// let version = stripline_bench::calibration::program_version();
/// assert_eq!(version.ends_with(" (debug build)"), cfg!(debug_assertions));
/// ```
pub fn program_version() -> String {
    let kind = if cfg!(debug_assertions) { " (debug build)" } else { "" };
    format!("{}{kind}", env!("CARGO_PKG_VERSION"))
}

/// Returns the share of all processors, 0 to 1, that other programs use during this time; `None` if
/// unknown.
///
/// ```
/// let share = stripline_bench::calibration::others_share(std::time::Duration::from_millis(20));
/// assert!(share.is_none_or(|share| (0.0..=1.0).contains(&share)));
/// ```
pub fn others_share(time: Duration) -> Option<f64> {
    let watch = RunWatch::start();
    std::thread::sleep(time);
    Disturbance::of(watch.stop(), allowed_cpus().len()).others_share
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents() -> Contents {
        let cost = |bytes| Cost { bytes, asleep_ns: 2100.0, spinning_ns: 280.5, per_packet_ns: bytes as f64 };
        Contents {
            format: FORMAT,
            program: program_version(),
            measured_s: 1_800_000_000,
            machine: Machine::here(),
            runs: 6,
            others_share: Some(0.01),
            transports: vec![TransportCosts { transport: "shm".into(), costs: vec![cost(64), cost(1024)] }],
        }
    }

    fn parse(contents: &Contents) -> Result<Calibration, String> {
        Calibration::parse(&serde_json::to_vec(contents).unwrap())
    }

    #[test]
    fn a_file_is_read_as_it_was_written() {
        let read = parse(&contents()).unwrap();
        assert_eq!(read, Calibration(contents()));
        assert_eq!(Calibration::parse(&serde_json::to_vec_pretty(&read).unwrap()), Ok(read.clone()));
        assert_eq!(read.of("shm").map(<[Cost]>::len), Some(2));
        assert_eq!((read.of("uds"), read.misfit(&Machine::here())), (None, None));
        assert!(!read.was_busy());
    }

    #[test]
    fn a_damaged_file_is_refused_with_the_reason() {
        let whole = serde_json::to_vec(&contents()).unwrap();
        for cut in 0..whole.len() {
            assert!(Calibration::parse(&whole[..cut]).is_err(), "{cut}");
        }
        let long = vec![b' '; FILE_BYTES_MAX + 1];
        assert!(Calibration::parse(&long).unwrap_err().contains("more than 65536 bytes"));
        assert!(Calibration::parse(b"\xff\xfe").unwrap_err().contains("not a calibration"));
        let changed = |change: fn(&mut Contents)| {
            let mut contents = contents();
            change(&mut contents);
            parse(&contents).unwrap_err()
        };
        for (problem, words) in [
            (changed(|c| c.format = 2), "format 2"),
            (changed(|c| c.program = "\u{1b}[2J".into()), "version"),
            (changed(|c| c.program = "9".repeat(65)), "version"),
            (changed(|c| c.measured_s = u64::MAX), "after 1970"),
            (changed(|c| c.runs = 0), "no runs"),
            (changed(|c| c.others_share = Some(1.5)), "0 to 1"),
            (changed(|c| c.machine.cpu = "x".repeat(201)), "200 characters"),
            (changed(|c| c.machine.boot = vec![String::new(); 65]), "65 boot parameters"),
            (changed(|c| c.transports.clear()), "0 transports"),
            (changed(|c| c.transports = vec![c.transports[0].clone(); 33]), "33 transports"),
            (changed(|c| c.transports = vec![c.transports[0].clone(); 2]), "`shm` twice"),
            (changed(|c| c.transports[0].transport.clear()), "name of a transport"),
            (changed(|c| c.transports[0].costs.clear()), "0 sizes"),
            (changed(|c| c.transports[0].costs = vec![c.transports[0].costs[0]; 9]), "9 sizes"),
            (changed(|c| c.transports[0].costs.swap(0, 1)), "do not ascend"),
            (changed(|c| c.transports[0].costs[0].bytes = 0), "0 bytes"),
            (changed(|c| c.transports[0].costs[1].bytes = usize::MAX), "bytes over `shm`"),
            (changed(|c| c.transports[0].costs[0].asleep_ns = 0.0), "not above 0"),
            (changed(|c| c.transports[0].costs[0].spinning_ns = -1.0), "not above 0"),
            (changed(|c| c.transports[0].costs[0].per_packet_ns = 1e300), "not above 0"),
            // JSON has no representation of this number.
            (changed(|c| c.transports[0].costs[0].per_packet_ns = f64::NAN), "damaged"),
        ] {
            assert!(problem.contains(words), "{words}: {problem}");
        }
        let text = String::from_utf8(whole).unwrap();
        let more = text.replacen("\"runs\"", "\"\\u001b[2J\":1,\"runs\"", 1);
        let problem = Calibration::parse(more.as_bytes()).unwrap_err();
        assert!(problem.contains("damaged: unknown field `[2J`"), "{problem}");
    }

    #[test]
    fn figures_of_another_version_or_machine_do_not_fit() {
        let other = Contents { program: "0.0.0".into(), ..contents() };
        let misfit = Calibration(other).misfit(&Machine::here()).unwrap();
        assert!(misfit.starts_with("it was measured by version 0.0.0, and this is "), "{misfit}");
        let mut other = contents();
        other.machine.kernel = "Linux 2.6.32".into();
        let misfit = Calibration(other).misfit(&Machine::here()).unwrap();
        assert!(misfit.starts_with("it is of another machine: its kernel was Linux 2.6.32"), "{misfit}");
    }
}
