//! Running a waveform in its own folder.

use std::path::{Path, PathBuf};
use std::time::Duration;

use stripline::transport;
use stripline_waveform::{Catalog, Observer, Overrides, Placement, RunOptions, RunReport, parse_bytes, run};

use super::registry;

/// A folder for waveforms and their files, removed afterwards.
pub struct Bench(tempfile::TempDir);

impl Bench {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Creates a waveform from text, with a file in the folder.
    pub fn text(&self, text: &str) -> Job {
        Job::new(text.into(), self.path("test.toml"))
    }

    /// Creates one of the example waveforms.
    pub fn file(&self, name: &str) -> Job {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../waveforms").join(name);
        Job::new(std::fs::read_to_string(&path).unwrap(), path)
    }
}

/// A waveform to run.
pub struct Job {
    text: String,
    path: PathBuf,
    overrides: Overrides,
    duration: Option<Duration>,
}

impl Job {
    fn new(text: String, path: PathBuf) -> Self {
        Self { text, path, overrides: Overrides::default(), duration: None }
    }

    pub fn set(mut self, setting: &str) -> Self {
        self.overrides.set.push(setting.into());
        self
    }

    pub fn transport(mut self, name: &str) -> Self {
        self.overrides.transport = Some(name.into());
        self
    }

    pub fn threads(mut self) -> Self {
        self.overrides.placement = Some(Placement::Thread);
        self
    }

    pub fn duration(mut self, duration: Duration) -> Self {
        self.duration = Some(duration);
        self
    }

    /// Asserts that the waveform is refused with these words before anything is started.
    pub fn refused(self, words: &[&str]) {
        let registry = registry();
        let transports: Vec<&str> = transport::all().map(|transport| transport.name).collect();
        let catalog = Catalog::new(registry.specs(), &transports);
        let found = parse_bytes(self.text.as_bytes(), &self.path, &self.overrides, &catalog)
            .map(|_| ())
            .expect_err("it is refused")
            .to_string();
        for word in words {
            assert!(found.contains(word), "`{word}` in {found}");
        }
    }

    pub fn run(self) -> Outcome {
        let registry = registry();
        let transports: Vec<&str> = transport::all().map(|transport| transport.name).collect();
        let catalog = Catalog::new(registry.specs(), &transports);
        let (waveform, _) = parse_bytes(self.text.as_bytes(), &self.path, &self.overrides, &catalog)
            .unwrap_or_else(|found| panic!("{found}"));
        let host = std::env::current_exe().unwrap();
        let options = RunOptions {
            host,
            duration: self.duration,
            sampling: Default::default(),
            quiet: false,
            output: Default::default(),
        };
        let mut log = Log(String::new());
        let report = run(&waveform, &options, &mut log).unwrap();
        Outcome { report, log: log.0 }
    }
}

/// The result of a run.
pub struct Outcome {
    report: RunReport,
    log: String,
}

impl Outcome {
    /// Asserts that the run ended cleanly and lost nothing.
    pub fn ended(self) -> RunReport {
        assert_eq!(self.report.failure, None, "{}", self.log);
        for connection in &self.report.connections {
            assert_eq!((connection.lost, connection.reordered), (0, 0), "{connection:?}");
        }
        self.report
    }

    pub fn report(&self) -> &RunReport {
        &self.report
    }

    /// Asserts that the log has this text.
    pub fn logged(self, text: &str) -> Self {
        assert!(self.log.contains(text), "`{text}` in {}", self.log);
        self
    }

    /// Asserts that the run failed with these words.
    pub fn failed(self, words: &[&str]) {
        let failure = self.report.failure.unwrap_or_else(|| panic!("it ended cleanly, without {words:?}"));
        for word in words {
            assert!(failure.contains(word), "`{word}` in {failure}");
        }
        assert!(!failure.contains("panicked"), "{failure}");
    }
}

/// The log of warnings and other text from components.
struct Log(String);

impl Observer for Log {
    fn warning(&mut self, component: &str, text: &str) {
        self.0 += &format!("{component}: {text}\n");
    }

    fn line(&mut self, component: &str, text: &str) {
        self.0 += &format!("[{component}] {text}\n");
    }
}

/// Returns the sample rate and the samples of a WAV file.
pub fn wav(path: &Path) -> (u32, Vec<f32>) {
    let mut reader = hound::WavReader::open(path).unwrap();
    let spec = reader.spec();
    let samples = match spec.sample_format {
        hound::SampleFormat::Float => reader.samples::<f32>().map(Result::unwrap).collect(),
        hound::SampleFormat::Int => {
            reader.samples::<i16>().map(|sample| f32::from(sample.unwrap()) / 32_768.0).collect()
        }
    };
    (spec.sample_rate, samples)
}
