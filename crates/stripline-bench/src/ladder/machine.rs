//! The machine that the figures were measured on.

use serde::Serialize;

/// A description of this machine.
///
/// ```
/// let machine = stripline_bench::ladder::Machine::here();
/// assert!(machine.cpus > 0);
/// println!("{machine}");
/// ```
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The processor's name; empty if the system does not provide it.
    pub cpu: String,
    /// Number of processors that this process may use.
    pub cpus: usize,
    /// The system's name and version.
    pub kernel: String,
    /// The frequency governor; `None` if the system shows none.
    pub governor: Option<String>,
    /// Whether it is a virtual machine, as far as the system reports it.
    pub virtualised: bool,
    /// The kernel's clock source.
    pub clock_source: Option<String>,
}

impl Machine {
    /// Describes this machine.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).ok().map(|text| text.trim().to_string());
        let cpuinfo = read("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = cpuinfo.lines().find(|line| line.starts_with(name));
            line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim())
        };
        let system = rustix::system::uname();
        Self {
            cpu: field("model name").to_string(),
            cpus: super::allowed_cpus().len(),
            kernel: format!("{} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy()),
            governor: read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            virtualised: field("flags").split(' ').any(|flag| flag == "hypervisor"),
            clock_source: read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
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
