//! `stripline calibrate`, and the costs that other commands show.

pub(crate) mod arguments;
mod file;

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde_json::json;
use stripline_bench::calibration::{self, Calibration, CalibrationResult, Cost, TransportCosts};
use stripline_bench::ladder::Settings;
use stripline_bench::report::ns;
use stripline_bench::{Machine, OTHERS_SHARE_MAX};
use stripline_components::formats::utc_datetime;
use stripline_waveform::internal::wrapped;

use crate::Exit;
use crate::bench::BenchScreen;
use crate::control::print_json;
use crate::format::{counted, quantity};
use crate::run::worse;
use crate::show::print;
use crate::table::Table;
use crate::terminal;
use arguments::CalibrateArguments;
use file::{Draft, place, read};

/// The time for which the load of other programs is measured before the calibration begins.
const IDLE_CHECK: Duration = Duration::from_secs(1);

pub(crate) fn calibrate(arguments: &CalibrateArguments) -> Exit {
    // Checked before anything runs: a result that cannot be written should not cost a run.
    let writable = |path: PathBuf| {
        Draft::beside(&path)?;
        Ok(path)
    };
    let path = match place().and_then(writable) {
        Ok(path) => path,
        Err(problem) => {
            report!("error: {problem}; nothing was measured");
            return Exit::Usage;
        }
    };
    if cfg!(debug_assertions) {
        report!("note: this is a debug build, which is slower: measure with `cargo run --release`");
    }
    let is_busy =
        |share: Option<f64>| share.filter(|share| *share > OTHERS_SHARE_MAX && !arguments.allow_busy);
    if !arguments.allow_busy
        && let Some(share) = is_busy(calibration::others_share(IDLE_CHECK))
    {
        report!("error: {}; nothing was measured", busy(share));
        return Exit::Failure;
    }
    let settings = Settings {
        quick: arguments.quick,
        rounds: arguments.runs,
        seconds_per_run: arguments.seconds_per_run,
        ..Settings::default()
    };
    let mut screen = BenchScreen::new();
    let measured = calibration::measure(&settings, &mut |progress| screen.show(progress));
    screen.finish();
    let kept = "nothing was written";
    let CalibrationResult { calibration, notes, interrupted } = match measured {
        Ok(measured) => measured,
        Err(problem) => {
            report!("error: {problem}; {kept}");
            return Exit::Failure;
        }
    };
    if interrupted {
        report!("error: interrupted; {kept}");
        return Exit::Failure;
    }
    notes.iter().for_each(|note| report!("note: {note}"));
    if let Some(share) = is_busy(calibration.others_share()) {
        report!("error: {}; {kept}", busy(share));
        return Exit::Failure;
    }
    if let Err(problem) = Draft::beside(&path).and_then(|draft| draft.keep(&calibration)) {
        report!("error: {problem}");
        return Exit::Failure;
    }
    if arguments.json {
        return print_json(&calibration);
    }
    let exit = print(&format!("{}\n{}", table(&calibration), about(&calibration)));
    let hint = "`stripline check --explain FILE` shows the costs of each connection's candidates.";
    worse(exit, print(&wide(&format!("Written to {}. {hint}", path.display()))))
}

fn busy(share: f64) -> String {
    format!(
        "other programs use {:.0} % of the processors, which spoils the figures; end them, or add --allow-busy",
        share * 100.0
    )
}

/// The costs that a command can show.
pub(crate) enum Costs {
    /// The path of the calibration, and the calibration.
    Measured(PathBuf, Calibration),
    /// Nothing was measured.
    Absent(PathBuf),
    /// The file cannot be used, for this reason.
    Ignored(Option<PathBuf>, String),
}

impl Costs {
    /// Reads the file of this user.
    pub(crate) fn read() -> Self {
        let path = match place() {
            Ok(path) => path,
            Err(problem) => return Self::Ignored(None, problem),
        };
        let calibration = match read(&path) {
            Ok(Some(bytes)) => Calibration::parse(&bytes),
            Ok(None) => return Self::Absent(path),
            Err(error) => Err(format!("it cannot be read: {error}")),
        };
        match calibration {
            Ok(calibration) => match calibration.misfit(&Machine::here()) {
                None => Self::Measured(path, calibration),
                Some(reason) => Self::Ignored(Some(path), reason),
            },
            Err(reason) => Self::Ignored(Some(path), reason),
        }
    }

    /// Returns the costs of a transport; `None`: not measured.
    pub(crate) fn of(&self, transport: &str) -> Option<&[Cost]> {
        match self {
            Self::Measured(_, calibration) => calibration.of(transport),
            Self::Absent(_) | Self::Ignored(..) => None,
        }
    }

    /// Returns the origin of the costs as JSON.
    pub(crate) fn as_json(&self) -> serde_json::Value {
        match self {
            Self::Measured(path, calibration) => json!({
                "file": path.to_string_lossy(),
                "state": "used",
                "reason": null,
                "measured": date(calibration),
                "program": calibration.program(),
                "runs": calibration.runs(),
                "others_share": calibration.others_share(),
                "machine": calibration.machine(),
            }),
            Self::Absent(path) => json!({"file": path.to_string_lossy(), "state": "absent", "reason": null}),
            Self::Ignored(path, reason) => {
                let path = path.as_ref().map(|path| path.to_string_lossy());
                json!({"file": path, "state": "ignored", "reason": reason})
            }
        }
    }

    /// Returns all costs as a table with their origin. Without costs, returns the reason and the
    /// remedy.
    pub(crate) fn describe(&self) -> String {
        let remedy = "`stripline calibrate` measures this machine in two minutes.";
        match self {
            Self::Measured(_, calibration) => {
                format!("Costs of a packet on this machine:\n{}\n{}", table(calibration), about(calibration))
            }
            Self::Absent(path) => {
                wide(&format!("Costs: not measured ({} is absent). {remedy}", path.display()))
            }
            Self::Ignored(path, reason) => {
                let path =
                    path.as_ref().map_or(String::new(), |path| format!("{} is ignored, as ", path.display()));
                wide(&format!("Costs: not measured: {path}{reason}. {remedy}"))
            }
        }
    }
}

/// Returns when, where and how the calibration was measured, in sentences.
fn about(calibration: &Calibration) -> String {
    let mut text = format!(
        "Measured {} ({}) in {} by version {}, on {}.",
        age(calibration.measured()),
        date(calibration),
        counted(calibration.runs().into(), "run"),
        calibration.program(),
        calibration.machine(),
    );
    let boot = &calibration.machine().boot;
    if !boot.is_empty() {
        text += &format!(" Boot parameters: {}.", boot.join(" "));
    }
    if let Some(share) = calibration.others_share().filter(|_| calibration.was_busy()) {
        text += &format!(
            " Other programs used {:.0} % of the processors meanwhile: do not rely on the figures.",
            share * 100.0
        );
    }
    wide(&text)
}

/// Returns the date and time of the measurement, to the second.
fn date(calibration: &Calibration) -> String {
    utc_datetime(calibration.measured()).replace(".000000", "")
}

/// Returns the time since `time`, in words.
fn age(time: SystemTime) -> String {
    let Ok(age) = SystemTime::now().duration_since(time) else {
        return "in the future, by its date".into();
    };
    let ago = |seconds: u64, unit| format!("{} ago", counted(age.as_secs() / seconds, unit));
    match age.as_secs() {
        0..60 => "just now".into(),
        60..3600 => ago(60, "minute"),
        3600..86_400 => ago(3600, "hour"),
        _ => ago(86_400, "day"),
    }
}

fn table(calibration: &Calibration) -> String {
    let figures = ["SIZE", "ASLEEP", "SPINNING", "FULL RATE", "BYTES"];
    let mut table = Table::new(&["TRANSPORT", "SIZE", "ASLEEP", "SPINNING", "FULL RATE", "BYTES"])
        .numbers(&figures)
        .droppable(&["BYTES"]);
    for TransportCosts { transport, costs } in calibration.transports() {
        for cost in costs {
            let times = [cost.asleep_ns, cost.spinning_ns, cost.per_packet_ns].map(|time| ns(Some(time)));
            let cells = [transport.clone(), size(cost.bytes)].into_iter().chain(times);
            table.add(cells.chain([quantity(cost.bytes_per_s(), "B/s")]));
        }
    }
    let meaning =
        "ASLEEP, SPINNING: one way, by how the receiver waits. FULL RATE: a packet of many in a row.";
    table.render() + &wide(meaning)
}

/// Formats a size in bytes.
pub(crate) fn size(bytes: usize) -> String {
    match bytes {
        _ if bytes >= 1 << 20 && bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        _ if bytes >= 1024 && bytes.is_multiple_of(1024) => format!("{} KiB", bytes >> 10),
        _ => format!("{bytes} B"),
    }
}

/// Wraps a paragraph for the terminal.
fn wide(text: &str) -> String {
    wrapped(text, terminal::width(), 0) + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_and_sizes_read_well() {
        let now = SystemTime::now();
        for (seconds, words) in
            [(0, "just now"), (60, "1 minute ago"), (7300, "2 hours ago"), (5 * 86_400, "5 days ago")]
        {
            assert_eq!(age(now - Duration::from_secs(seconds)), words);
        }
        assert_eq!(age(now + Duration::from_secs(60)), "in the future, by its date");
        let sizes = [64, 1024, 1500, 32_768, 1 << 20].map(size);
        assert_eq!(sizes, ["64 B", "1 KiB", "1500 B", "32 KiB", "1 MiB"]);
    }
}
