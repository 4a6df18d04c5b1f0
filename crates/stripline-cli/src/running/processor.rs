//! The processor times of components.

use stripline_waveform::Placement;
use stripline_waveform::control::RunningComponent;

/// Ticks of processor time in a second. Linux fixes this number for user space.
const TICKS_PER_SECOND: f64 = 100.0;
/// The longest thread name that the kernel keeps, in bytes.
const THREAD_NAME_MAX: usize = 15;

/// The processor time of a component's process or thread so far.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Busy {
    pub pid: u32,
    pub seconds: f64,
}

impl Busy {
    /// Reads the processor time of a component. If the component shares a process, reads the time
    /// of the thread with the component's name. Returns `None` if another component's thread has
    /// the same name.
    pub(crate) fn of(component: &RunningComponent, all: &[RunningComponent]) -> Option<Self> {
        let pid = component.pid?;
        if component.placement == Placement::Process {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            return Some(Self { pid, seconds: seconds_of(&stat)? });
        }
        let name = thread_name(&component.name);
        if all.iter().filter(|other| other.pid == Some(pid) && thread_name(&other.name) == name).count() > 1 {
            return None;
        }
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
        let seconds = tasks.filter_map(|task| {
            let comm = std::fs::read_to_string(task.path().join("comm")).ok()?;
            let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
            (comm.trim_end() == name).then(|| seconds_of(&stat)).flatten()
        });
        seconds.reduce(|one, other| one + other).map(|seconds| Self { pid, seconds })
    }
}

/// Returns the name of a component's thread: the component's name, as far as the kernel keeps it.
fn thread_name(component: &str) -> &str {
    let mut end = component.len().min(THREAD_NAME_MAX);
    while !component.is_char_boundary(end) {
        end -= 1;
    }
    &component[..end]
}

/// Returns the seconds in user and kernel mode from a `stat` file of the kernel.
fn seconds_of(stat: &str) -> Option<f64> {
    // The command before the last parenthesis may contain spaces.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index)?.parse::<u32>().ok();
    Some((f64::from(ticks(11)?) + f64::from(ticks(12)?)) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_read_whatever_the_command_is_called() {
        let stat = "7 (a) b) S 1 7 7 0 -1 4194560 1 0 0 0 150 50 0 0 20 0 1 0 1 1 1";
        assert_eq!(seconds_of(stat), Some(2.0));
        for wrong in ["", "7 (a", "7 (a) S 1", "7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 x 50"] {
            assert_eq!(seconds_of(wrong), None, "{wrong}");
        }
        let own = std::fs::read_to_string("/proc/self/stat").unwrap();
        assert!(seconds_of(&own).is_some());
        assert_eq!(
            (thread_name("demodulator"), thread_name("fourteen-letteräs")),
            ("demodulator", "fourteen-letter")
        );
    }
}
