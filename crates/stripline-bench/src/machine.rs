//! The machine on which the figures were measured.

use rustix::thread::{CpuSet, sched_getaffinity};
use serde::{Deserialize, Serialize};

/// The maximum number of characters of a text that the system provides.
const TEXT_MAX: usize = 200;
/// The maximum number of boot parameters.
const BOOT_MAX: usize = 64;

/// The boot parameters that change the cost of a packet, by the beginning of their names.
const BOOT_PARAMETERS: [&str; 20] = [
    "amd_pstate",
    "clocksource",
    "hugepages",
    "idle",
    "intel_idle",
    "intel_pstate",
    "irqaffinity",
    "isolcpus",
    "mitigations",
    "no_stf_barrier",
    "nohz",
    "nopti",
    "nosmt",
    "preempt",
    "processor.",
    "pti",
    "rcu_nocbs",
    "spec",
    "transparent_hugepage",
    "tsc",
];

/// A description of this machine.
///
/// ```
/// let machine = stripline_bench::Machine::here();
/// assert!(machine.cpus > 0);
/// println!("{machine}");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The name of the processor; empty if the system does not provide it.
    pub cpu: String,
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// The name and the version of the system.
    pub kernel: String,
    /// The frequency governor; `None` if the system does not show one.
    pub governor: Option<String>,
    /// Whether the machine is virtual, as far as the system reports this.
    pub virtualised: bool,
    /// The clock source of the kernel.
    pub clock_source: Option<String>,
    /// The boot parameters of the kernel that change the cost of a packet, such as `isolcpus=2-3`.
    pub boot: Vec<String>,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
        let line = |path: &str| read(path).map(|text| printable(&text));
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
        };
        let system = rustix::system::uname();
        Self {
            cpu: printable(field("model name")),
            cpus: allowed_cpus().len(),
            kernel: printable(&format!(
                "{} {}",
                system.sysname().to_string_lossy(),
                system.release().to_string_lossy()
            )),
            governor: line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtualised: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
            boot: boot_parameters(&read("/proc/cmdline").unwrap_or_default()),
        }
    }

    /// Returns the differences between another description of a machine and this one, in words. The
    /// number of processors is ignored, because it is the number that the program may use.
    ///
    /// ```
    /// use stripline_bench::Machine;
    ///
    /// let (now, mut then) = (Machine::here(), Machine::here());
    /// assert!(now.differences(&then).is_empty());
    /// then.kernel = "Linux 2.6.32".into();
    /// assert!(now.differences(&then)[0].starts_with("its kernel was Linux 2.6.32"));
    /// ```
    pub fn differences(&self, then: &Self) -> Vec<String> {
        let known = |text: &Option<String>| text.clone().unwrap_or_default();
        let kind = |machine: &Self| if machine.virtualised { "virtual" } else { "real" }.to_string();
        let pairs = [
            ("processor", then.cpu.clone(), self.cpu.clone()),
            ("kind", kind(then), kind(self)),
            ("kernel", then.kernel.clone(), self.kernel.clone()),
            ("governor", known(&then.governor), known(&self.governor)),
            ("clock source", known(&then.clock_source), known(&self.clock_source)),
            ("list of boot parameters", then.boot.join(" "), self.boot.join(" ")),
        ];
        let word = |text: String| if text.is_empty() { "unknown".into() } else { text };
        let differing = pairs.into_iter().filter(|(_, then, now)| then != now);
        differing
            .map(|(what, then, now)| format!("its {what} was {}, and here it is {}", word(then), word(now)))
            .collect()
    }

    /// Checks a description that was read from a file.
    ///
    /// # Errors
    /// A sentence that names the text that is too long or not printable.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.boot.len() > BOOT_MAX {
            return Err(format!("{} boot parameters, where {BOOT_MAX} are the most", self.boot.len()));
        }
        let texts = [&self.cpu, &self.kernel].into_iter().chain(&self.governor);
        match texts.chain(&self.clock_source).chain(&self.boot).find(|text| printable(text) != **text) {
            None => Ok(()),
            Some(text) => Err(format!(
                "a text of the machine, `{}`, is not printable or has more than {TEXT_MAX} characters",
                printable(text)
            )),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let cpu = if self.cpu.is_empty() { "unknown processor" } else { &self.cpu };
        write!(f, "{} × {cpu}{}", self.cpus, if self.virtualised { " (virtual machine)" } else { "" })?;
        write!(f, ", {}", self.kernel)?;
        write!(f, ", governor {}", self.governor.as_deref().unwrap_or("unknown"))?;
        write!(f, ", clock source {}", self.clock_source.as_deref().unwrap_or("unknown"))
    }
}

/// Returns the processors that this process may use.
pub(crate) fn allowed_cpus() -> Vec<usize> {
    match sched_getaffinity(None) {
        Ok(set) => (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect(),
        // If the system refuses, assume one processor.
        Err(_) => vec![0],
    }
}

/// Returns the boot parameters that change the cost of a packet.
fn boot_parameters(line: &str) -> Vec<String> {
    let matters = |word: &&str| BOOT_PARAMETERS.iter().any(|name| word.starts_with(name));
    line.split_whitespace().filter(matters).take(BOOT_MAX).map(printable).collect()
}

/// Returns a text without control characters, cut to the maximum length.
pub(crate) fn printable(text: &str) -> String {
    let is_printable = |symbol: &char| {
        !symbol.is_control()
            && !matches!(symbol, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    text.chars().filter(is_printable).take(TEXT_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_matters_is_taken_from_the_boot_line() {
        let line =
            "BOOT_IMAGE=/vmlinuz root=UUID=1 isolcpus=2-3 quiet mitigations=off password=x nohz_full=2";
        assert_eq!(boot_parameters(line), ["isolcpus=2-3", "mitigations=off", "nohz_full=2"]);
        assert_eq!(boot_parameters(&"nosmt ".repeat(1000)).len(), BOOT_MAX);
    }

    #[test]
    fn this_machine_passes_its_own_check_and_differs_from_others() {
        let now = Machine::here();
        assert_eq!(now.check(), Ok(()));
        let then = Machine { cpu: "486DX".into(), virtualised: !now.virtualised, ..now.clone() };
        let differences = now.differences(&Machine { cpus: 1 + now.cpus, ..then });
        assert_eq!(differences.len(), 2, "{differences:?}");
        assert!(differences[0].starts_with("its processor was 486DX, and here it is "), "{differences:?}");
        for wrong in ["\u{1b}[31m".to_string(), "x".repeat(TEXT_MAX + 1)] {
            assert!(Machine { governor: Some(wrong), ..now.clone() }.check().is_err());
        }
    }
}
