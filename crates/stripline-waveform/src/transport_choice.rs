//! The choice of a connection's transport: the candidates in order, with the rule that ruled out
//! each rejected one.

use std::fmt;

use serde::{Deserialize, Serialize};
use stripline::Error;
use stripline::terms::LinkOptions;
use stripline::transport::{self, AUTO};

use super::components::CheckedComponent;
use super::diagnostics::At;
use super::text::{listed, quoted};

/// The transport that only joins components of the same process.
pub(super) const SAME_PROCESS: &str = "inproc";
/// The transports that `auto` tries first, in this order. The transports of `allow` follow.
pub(super) const FIRST: [&str; 2] = [SAME_PROCESS, "shm"];

/// The choice of a connection's transport, made before anything starts.
///
/// ```
/// use stripline_waveform::{ConnectionPlan, TransportChoice};
///
/// fn reason(plan: &ConnectionPlan) -> String {
///     let TransportChoice { by, .. } = &plan.choice;
///     format!("{}, by {by}{}", plan.transport, plan.choice.passed_over().map_or(String::new(), |why| {
///         format!(", as {why}")
///     }))
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransportChoice {
    /// The origin of the choice.
    pub by: ChosenBy,
    /// All transports of the program, in the order in which they were considered.
    pub candidates: Vec<Candidate>,
}

/// The origin of a connection's transport.
///
/// ```
/// assert_eq!(stripline_waveform::ChosenBy::default().to_string(), "auto");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ChosenBy {
    /// The rule of `auto`.
    #[default]
    Auto,
    /// A name in the waveform file.
    File,
    /// A name in `--transport`.
    Option,
    /// A name in `stripline set`, during the run.
    Set,
}

impl fmt::Display for ChosenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Auto => AUTO,
            Self::File => "the file",
            Self::Option => "--transport",
            Self::Set => "stripline set",
        })
    }
}

/// A transport that was considered for a connection.
///
/// ```
/// use stripline_waveform::Candidate;
///
/// let rule = "`source` is a process of its own";
/// let candidate = Candidate { transport: "inproc".into(), struck_out: Some(rule.into()) };
/// assert!(candidate.struck_out.is_some());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The name of the transport.
    pub transport: String,
    /// The rule that ruled the transport out; `None` for the chosen transport and for transports
    /// after it.
    pub struck_out: Option<String>,
}

impl TransportChoice {
    /// Returns why `auto` passed over the candidates before the chosen one; `None` if `auto` chose
    /// the first, or did not choose.
    ///
    /// ```
    /// use stripline_waveform::{Candidate, ChosenBy, TransportChoice};
    ///
    /// let candidate = |name: &str, rule: Option<&str>| Candidate {
    ///     transport: name.into(),
    ///     struck_out: rule.map(String::from),
    /// };
    /// let candidates = vec![candidate("inproc", Some("`a` is a process of its own")), candidate("shm", None)];
    /// let choice = TransportChoice { by: ChosenBy::Auto, candidates };
    /// assert_eq!(choice.passed_over().unwrap(), "inproc: `a` is a process of its own");
    /// ```
    pub fn passed_over(&self) -> Option<String> {
        if self.by != ChosenBy::Auto {
            return None;
        }
        let before = self.candidates.iter().map_while(|candidate| {
            let rule = candidate.struck_out.as_ref()?;
            Some(format!("{}: {rule}", candidate.transport))
        });
        let before: Vec<String> = before.collect();
        (!before.is_empty()).then(|| before.join("; "))
    }

    /// Returns the first candidate that no rule has ruled out.
    pub(super) fn taken(&self) -> Option<&str> {
        let taken = self.candidates.iter().find(|candidate| candidate.struck_out.is_none());
        taken.map(|candidate| candidate.transport.as_str())
    }
}

/// The parts of a connection that the transport must suit.
pub(super) struct Requirements<'w> {
    /// The components at the ends.
    pub ends: &'w [&'w CheckedComponent<'w>],
    /// The rule that rules out `inproc`, if the ends are in different processes.
    pub split: Option<String>,
    pub options: &'w LinkOptions,
    /// The transport that is named, and where it is named.
    pub named: Option<(&'w At<String>, ChosenBy)>,
    /// The transports that `auto` may choose in addition to the first candidates.
    pub allowed: &'w [At<String>],
}

impl Requirements<'_> {
    /// Rules out the transports of the program that a rule forbids.
    pub(super) fn choose(&self, transports: &[&str]) -> TransportChoice {
        let allowed = || self.allowed.iter().map(|at| at.value.as_str());
        let mut names: Vec<&str> = match self.named {
            Some((at, _)) => vec![&at.value],
            None => FIRST.into_iter().chain(allowed()).collect(),
        };
        let others = transports.iter().copied().filter(|name| !names.contains(name));
        let others: Vec<&str> = others.collect();
        let considered = names.len();
        names.extend(others);
        let candidate = |(index, name): (usize, &str)| {
            let rule =
                self.rule(name, transports).or_else(|| (index >= considered).then(|| self.not_meant()));
            Candidate { transport: name.into(), struck_out: rule }
        };
        TransportChoice {
            by: self.named.map_or(ChosenBy::Auto, |(_, by)| by),
            candidates: names.into_iter().enumerate().map(candidate).collect(),
        }
    }

    /// Returns the rule that forbids a transport for this connection.
    fn rule(&self, name: &str, transports: &[&str]) -> Option<String> {
        if !transports.contains(&name) {
            return Some("it is not in this program".into());
        }
        if name == SAME_PROCESS && self.split.is_some() {
            return self.split.clone();
        }
        if let Some(end) = self.ends.iter().find(|end| !end.has_transport(name)) {
            return Some(format!(
                "the {} of {} does not have it",
                end.part_with_transports(),
                quoted(&end.name.value)
            ));
        }
        cannot_keep(name, self.options)
    }

    /// Returns the rule that rules out transports that are not named.
    fn not_meant(&self) -> String {
        match self.named {
            Some((at, ChosenBy::Option)) => format!("--transport names {}", quoted(&at.value)),
            Some((at, _)) => format!("the file names {}", quoted(&at.value)),
            None => "`allow` does not name it".into(),
        }
    }
}

/// Returns the rule among the options that a transport cannot keep.
fn cannot_keep(name: &str, options: &LinkOptions) -> Option<String> {
    match transport::check(name, options) {
        Err(Error::Unsupported { rule, .. }) => Some(format!("it cannot keep {rule}")),
        // A name that the library does not have comes from the caller.
        _ => None,
    }
}

/// Returns the choice of the transport of a topic; `named` is the transport in the file, or `auto`.
/// All transports of the program are considered.
pub(super) fn of_topic(named: &str, options: &LinkOptions, transports: &[&str]) -> TransportChoice {
    let is_auto = named == AUTO;
    let candidate = |name: &str| {
        let rule = match name {
            _ if name == named => None,
            SAME_PROCESS if is_auto => Some("the peers of a topic may be in other processes".into()),
            "shm" if is_auto => None,
            _ => cannot_keep(name, options).or_else(|| {
                Some(match is_auto {
                    true => format!("`{AUTO}` is shm in a topics file"),
                    false => format!("the file names {}", quoted(named)),
                })
            }),
        };
        Candidate { transport: name.into(), struck_out: rule }
    };
    TransportChoice {
        by: if is_auto { ChosenBy::Auto } else { ChosenBy::File },
        candidates: transports.iter().map(|name| candidate(name)).collect(),
    }
}

/// Returns the rule that rules out `inproc` between these components, which are in different
/// processes.
pub(super) fn split_rule(processes: &[&str]) -> String {
    let names = listed(processes.iter().copied(), "and");
    match processes.len() {
        0 => "they are threads of different programs".into(),
        1 => format!("{names} is a process of its own"),
        _ => format!("{names} are processes of their own"),
    }
}
