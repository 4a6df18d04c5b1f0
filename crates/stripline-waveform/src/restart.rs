//! Restart rules: whether, when and how often a component is restarted after it has ended.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

/// The pause before the first restart. The pause doubles with each further restart.
const PAUSE_MIN: Duration = Duration::from_millis(20);
/// A component that has run for at least this time starts with the shortest pause again.
const RECOVERY_TIME: Duration = Duration::from_secs(10);

/// A rule for restarting a component after it has ended. A rule is always valid: restarts that
/// could repeat for ever have pauses of a second or more.
///
/// ```
/// use std::time::Duration;
/// use stripline_waveform::{GiveUp, Restart, RestartWhen};
///
/// assert_eq!(Restart::default().when(), RestartWhen::Never);
/// let five = Duration::from_secs(5);
/// let patient = Restart::new(RestartWhen::OnFailure, five, GiveUp::Never)?;
/// assert_eq!(patient.pause_max(), five);
/// let hasty = Restart::new(RestartWhen::OnFailure, Duration::from_millis(50), GiveUp::Never);
/// assert!(hasty.is_err());
/// # Ok::<(), stripline_waveform::InvalidRestart>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restart {
    when: RestartWhen,
    pause_max: Duration,
    give_up: GiveUp,
    then: AfterGivingUp,
}

/// The ends of a component after which it is restarted.
///
/// ```
/// let word = serde_json::to_string(&stripline_waveform::RestartWhen::OnFailure).unwrap();
/// assert_eq!(word, r#""on-failure""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RestartWhen {
    /// The component is never restarted.
    Never,
    /// The component is restarted after a failure.
    OnFailure,
    /// The component is restarted after a failure and when it ends by itself.
    Always,
}

/// The number of failures after which a component is no longer restarted.
///
/// ```
/// use stripline_waveform::GiveUp;
///
/// let limit: GiveUp = "5 in 10s".parse()?;
/// assert_eq!((limit, limit.to_string().as_str()), (GiveUp::default(), "5 in 10s"));
/// assert!("often".parse::<GiveUp>().is_err());
/// # Ok::<(), stripline_waveform::InvalidRestart>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GiveUp {
    /// Every failure is followed by a restart.
    Never,
    /// The component is given up at the next failure after `restarts` restarts within this time.
    After {
        /// Restarts, 1 to 1000.
        restarts: u16,
        /// Whole seconds, 1 s to 1 h.
        within: Duration,
    },
}

/// The reaction to a failure that is not followed by a restart.
///
/// ```
/// let word = serde_json::to_string(&stripline_waveform::AfterGivingUp::GoOn).unwrap();
/// assert_eq!(word, r#""go-on""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AfterGivingUp {
    /// The waveform ends with exit code 1.
    End,
    /// The other components go on. For receivers, the streams of the failed component have ended.
    GoOn,
}

/// The reason why a restart rule is invalid, with the remedy.
///
/// ```
/// let error = "5 in 10h".parse::<stripline_waveform::GiveUp>().unwrap_err();
/// assert!(error.remedy().contains("5 in 10s"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidRestart {
    message: String,
    remedy: String,
}

impl InvalidRestart {
    fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }

    /// Returns the remedy.
    pub fn remedy(&self) -> &str {
        &self.remedy
    }
}

impl fmt::Display for InvalidRestart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for InvalidRestart {}

impl Default for Restart {
    fn default() -> Self {
        Self {
            when: RestartWhen::Never,
            pause_max: Self::PAUSE_MAX_DEFAULT,
            give_up: GiveUp::default(),
            then: AfterGivingUp::End,
        }
    }
}

impl Restart {
    /// The longest pause if the rule gives none.
    pub const PAUSE_MAX_DEFAULT: Duration = Duration::from_millis(1280);
    /// The limits of the longest pause, in milliseconds.
    pub const PAUSE_MAX_MS: std::ops::RangeInclusive<u32> = 100..=3_600_000;
    /// The smallest allowed value of the longest pause with [`GiveUp::Never`].
    pub const ENDLESS_PAUSE_MAX: Duration = Duration::from_secs(1);

    /// Creates a rule.
    ///
    /// # Errors
    /// When the pause is out of range or too short for a rule that never gives up, or when it is
    /// too long for the limit of `give_up` to be ever reached.
    pub fn new(when: RestartWhen, pause_max: Duration, give_up: GiveUp) -> Result<Self, InvalidRestart> {
        let ms = pause_max.as_millis();
        let (min, max) = (*Self::PAUSE_MAX_MS.start(), *Self::PAUSE_MAX_MS.end());
        if ms < u128::from(min) || ms > u128::from(max) {
            let message = format!("`pause-max-ms` is {ms}");
            return Err(InvalidRestart::new(message, format!("it must be from {min} to {max}")));
        }
        let rule = Self { when, pause_max, give_up, then: AfterGivingUp::End };
        match give_up {
            GiveUp::Never if pause_max < Self::ENDLESS_PAUSE_MAX => Err(InvalidRestart::new(
                format!("with `give-up-after` = \"never\" a `pause-max-ms` of {ms} is too short"),
                "write 1000 or more, so that a component that always fails costs little",
            )),
            GiveUp::After { restarts, within } => {
                give_up.check()?;
                let pauses: Duration = (0..restarts.into()).map(|count| rule.pause(count)).sum();
                if pauses < within {
                    return Ok(rule);
                }
                let message = format!(
                    "\"{give_up}\" is never reached: the pauses of {restarts} restarts take {} s",
                    pauses.as_secs()
                );
                Err(InvalidRestart::new(message, "lower the count or `pause-max-ms`, or write \"never\""))
            }
            GiveUp::Never => Ok(rule),
        }
    }

    /// Sets the reaction to a failure that is not followed by a restart.
    pub fn then(self, then: AfterGivingUp) -> Self {
        Self { then, ..self }
    }

    /// Returns the rule for a single word in a waveform file.
    pub fn of(when: RestartWhen) -> Self {
        Self { when, ..Self::default() }
    }

    /// Returns the ends after which the component is restarted.
    pub fn when(&self) -> RestartWhen {
        self.when
    }

    /// Returns the longest pause before a restart.
    pub fn pause_max(&self) -> Duration {
        self.pause_max
    }

    /// Returns the number of failures after which the component is no longer restarted.
    pub fn give_up(&self) -> GiveUp {
        self.give_up
    }

    /// Returns the reaction to a failure that is not followed by a restart.
    pub fn after_giving_up(&self) -> AfterGivingUp {
        self.then
    }

    /// Returns the pause after `restarts` restarts.
    fn pause(&self, restarts: u32) -> Duration {
        PAUSE_MIN.saturating_mul(1 << restarts.min(20)).min(self.pause_max)
    }
}

impl RestartWhen {
    pub(crate) const ALL: [Self; 3] = [Self::Never, Self::OnFailure, Self::Always];

    /// Returns the word used in a waveform file.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Never => "never",
            Self::OnFailure => "on-failure",
            Self::Always => "always",
        }
    }
}

impl AfterGivingUp {
    pub(crate) const ALL: [Self; 2] = [Self::End, Self::GoOn];

    /// Returns the word used in a waveform file.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::End => "end",
            Self::GoOn => "go-on",
        }
    }
}

impl Default for GiveUp {
    fn default() -> Self {
        Self::After { restarts: 5, within: Duration::from_secs(10) }
    }
}

impl GiveUp {
    const EXAMPLE: &str = "write it as \"5 in 10s\", with 1 to 1000 restarts in 1 to 3600 s, or \"never\"";

    fn check(self) -> Result<Self, InvalidRestart> {
        match self {
            Self::After { restarts, within }
                if !(1..=1000).contains(&restarts)
                    || !(1..=3600).contains(&within.as_secs())
                    || within.subsec_nanos() != 0 =>
            {
                Err(InvalidRestart::new(format!("`give-up-after` cannot be \"{self}\""), Self::EXAMPLE))
            }
            Self::After { .. } | Self::Never => Ok(self),
        }
    }
}

impl fmt::Display for GiveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("never"),
            Self::After { restarts, within } => write!(f, "{restarts} in {}s", within.as_secs_f64()),
        }
    }
}

impl FromStr for GiveUp {
    type Err = InvalidRestart;

    fn from_str(text: &str) -> Result<Self, InvalidRestart> {
        if text == "never" {
            return Ok(Self::Never);
        }
        let parse = || {
            let (restarts, time) = text.split_once(" in ")?;
            let seconds: u16 = time.trim().strip_suffix('s')?.trim_end().parse().ok()?;
            let within = Duration::from_secs(seconds.into());
            Some(Self::After { restarts: restarts.trim().parse().ok()?, within })
        };
        let what = crate::text::quoted(text);
        let no_limit = || InvalidRestart::new(format!("`give-up-after` cannot be {what}"), Self::EXAMPLE);
        parse().ok_or_else(no_limit)?.check()
    }
}

/// The restarts of one process. Decides whether another one may follow.
#[derive(Default)]
pub(crate) struct RestartHistory {
    /// The time of the last start.
    started: Option<Instant>,
    /// The failures that count for giving up.
    failures: VecDeque<Instant>,
    /// The restarts since the process last ran long enough.
    in_a_row: u32,
    /// All restarts.
    pub total: u32,
}

impl RestartHistory {
    /// Records that the process has been started.
    pub(crate) fn start(&mut self, now: Instant) {
        self.started = Some(now);
    }

    /// Returns whether the rule allows a restart after a failure at this time.
    pub(crate) fn may_restart(&mut self, rule: &Restart, now: Instant) -> bool {
        let GiveUp::After { restarts, within } = rule.give_up else { return true };
        while self.failures.front().is_some_and(|at| now.duration_since(*at) >= within) {
            self.failures.pop_front();
        }
        self.failures.len() < restarts.into()
    }

    /// Records a restart at this time. Returns the pause before the restart.
    pub(crate) fn restart(&mut self, rule: &Restart, has_failed: bool, now: Instant) -> Duration {
        if self.started.is_some_and(|start| now.duration_since(start) >= RECOVERY_TIME) {
            self.in_a_row = 0;
        }
        if has_failed && rule.give_up != GiveUp::Never {
            self.failures.push_back(now);
        }
        let pause = rule.pause(self.in_a_row);
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.total = self.total.saturating_add(1);
        pause
    }

    /// Describes the last restart for users: after a failure, the number of recent failures and the
    /// maximum, otherwise the number of all restarts.
    pub(crate) fn count(&self, rule: &Restart, has_failed: bool) -> String {
        match rule.give_up {
            GiveUp::After { restarts, .. } if has_failed => {
                format!("{} of {restarts}", self.failures.len())
            }
            _ => format!("restart {}", self.total),
        }
    }

    /// Returns the suffix for the last failure of a component that has failed too often.
    pub(crate) fn given_up(&self, rule: &Restart) -> String {
        match (rule.give_up, self.failures.len()) {
            (GiveUp::Never, _) | (_, 0) => String::new(),
            (GiveUp::After { within, .. }, count) => {
                format!(" (after {count} restarts within {} s it is given up)", within.as_secs())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn rule(pause_max_ms: u32, give_up: &str) -> Result<Restart, InvalidRestart> {
        Restart::new(RestartWhen::OnFailure, MS * pause_max_ms, give_up.parse()?)
    }

    /// Lets a process fail `run` after each start, until it is given up or has failed `count`
    /// times. Returns the pauses.
    fn pauses(rule: &Restart, run: Duration, count: usize) -> Vec<u128> {
        let (mut history, mut now) = (RestartHistory::default(), Instant::now());
        let mut pauses = Vec::new();
        while pauses.len() < count {
            history.start(now);
            now += run;
            if !history.may_restart(rule, now) {
                break;
            }
            let pause = history.restart(rule, true, now);
            now += pause;
            pauses.push(pause.as_millis());
        }
        assert_eq!(history.total as usize, pauses.len());
        pauses
    }

    #[test]
    fn the_short_form_gives_up_after_five_restarts_as_before() {
        let rule = Restart::of(RestartWhen::OnFailure);
        assert_eq!(pauses(&rule, MS, 100), [20, 40, 80, 160, 320]);
    }

    #[test]
    fn a_rule_that_never_gives_up_is_bounded_by_its_pause() {
        let rule = rule(5000, "never").unwrap();
        let all = pauses(&rule, MS, 1000);
        assert_eq!(all[..9], [20, 40, 80, 160, 320, 640, 1280, 2560, 5000]);
        assert!(all[9..].iter().all(|pause| *pause == 5000) && all.len() == 1000);
    }

    #[test]
    fn a_component_that_ran_long_enough_starts_with_the_shortest_pause_again() {
        let rule = rule(5000, "never").unwrap();
        assert_eq!(pauses(&rule, RECOVERY_TIME, 4), [20; 4]);
        assert_eq!(pauses(&rule, RECOVERY_TIME - MS, 4), [20, 40, 80, 160]);
    }

    #[test]
    fn failures_that_are_far_enough_apart_are_never_too_many() {
        let rule = rule(100, "2 in 3s").unwrap();
        assert_eq!(pauses(&rule, MS * 1490, 50).len(), 50);
        assert_eq!(pauses(&rule, MS * 1000, 50).len(), 2);
    }

    #[test]
    fn a_clean_end_counts_for_the_pause_and_not_for_giving_up() {
        let rule = Restart::of(RestartWhen::Always);
        let (mut history, now) = (RestartHistory::default(), Instant::now());
        for count in 0..20 {
            history.start(now);
            assert!(history.may_restart(&rule, now));
            let pause = history.restart(&rule, false, now);
            assert_eq!(pause, (PAUSE_MIN * (1 << count)).min(Restart::PAUSE_MAX_DEFAULT));
        }
        assert_eq!(history.count(&rule, false), "restart 20");
        history.restart(&rule, true, now);
        assert_eq!(history.count(&rule, true), "1 of 5");
        history.restart(&rule, false, now);
        assert_eq!(history.count(&rule, false), "restart 22", "the failure before is not counted again");
    }

    #[test]
    fn rules_out_of_range_or_without_effect_are_refused() {
        for (pause, give_up, part) in [
            (99, "5 in 10s", "`pause-max-ms` is 99"),
            (3_600_001, "never", "`pause-max-ms` is 3600001"),
            (999, "never", "too short"),
            (1000, "20 in 10s", "never reached"),
            (1280, "0 in 10s", "cannot be"),
            (1280, "1001 in 10s", "cannot be"),
            (1280, "5 in 0s", "cannot be"),
            (1280, "5 in 3601s", "cannot be"),
            (1280, "5 in 10", "cannot be"),
            (1280, "-5 in 10s", "cannot be"),
            (1280, "five in ten", "cannot be"),
            (1280, "", "cannot be"),
        ] {
            let error = rule(pause, give_up).unwrap_err();
            assert!(error.to_string().contains(part), "{pause}, {give_up}: {error}");
            assert!(!error.remedy().is_empty());
        }
        let odd = GiveUp::After { restarts: 5, within: MS * 10_500 };
        assert!(Restart::new(RestartWhen::OnFailure, MS * 1000, odd).is_err());
        assert!(rule(1000, "never").is_ok() && rule(100, "10 in 60s").is_ok());
    }
}
