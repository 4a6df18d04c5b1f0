//! The processes that do not answer, in few lines.

use std::collections::BTreeMap;

use stripline::inspect::Problem;
use stripline::internal::process::state_and_parent;

/// The most processes that a line lists.
const LISTED_MAX: usize = 3;

/// Returns a line for each problem. Processes of one launcher with the same problem share a line:
/// often a whole waveform has it. `waveform_of` returns the waveform of a launcher, or `None`.
pub(crate) fn problem_lines(
    problems: &[Problem],
    waveform_of: impl Fn(u32) -> Option<String>,
) -> Vec<String> {
    lines(problems, |pid| state_and_parent(pid).1, waveform_of)
}

fn lines(
    problems: &[Problem],
    parent_of: impl Fn(u32) -> Option<u32>,
    waveform_of: impl Fn(u32) -> Option<String>,
) -> Vec<String> {
    let mut groups: BTreeMap<(&str, Option<u32>), Vec<&Problem>> = BTreeMap::new();
    for problem in problems {
        groups.entry((&problem.what, parent_of(problem.pid))).or_default().push(problem);
    }
    let line = |((what, parent), group): ((&str, Option<u32>), Vec<&Problem>)| {
        if let [one] = group[..] {
            return one.to_string();
        }
        let of = match parent.map(|pid| (pid, waveform_of(pid))) {
            Some((_, Some(waveform))) => format!("components of `{waveform}`"),
            Some((pid, None)) => format!("processes of the parent {pid}"),
            None => "processes".into(),
        };
        let pids: Vec<String> = group.iter().take(LISTED_MAX).map(|one| one.pid.to_string()).collect();
        let others = group.len().saturating_sub(LISTED_MAX);
        let others = if others > 0 { format!(" and {others} others") } else { String::new() };
        format!("{} {of} (process {}{others}): {what}", group.len(), pids.join(", "))
    };
    groups.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_problems_of_one_launcher_share_a_line() {
        let problem = |pid, what: &str| Problem { pid, command: Some("stripline".into()), what: what.into() };
        let mut problems: Vec<Problem> = (10..30).map(|pid| problem(pid, "does not answer")).collect();
        problems.extend([problem(30, "does not answer"), problem(31, "closed the connection")]);
        problems.extend([problem(40, "does not answer"), problem(41, "does not answer")]);
        let parent_of = |pid| match pid {
            10..30 => Some(9),
            40.. => Some(39),
            _ => Some(1),
        };
        let found = lines(&problems, parent_of, |pid| (pid == 9).then(|| "radar".into()));
        assert_eq!(
            found,
            [
                "process 31 (stripline): closed the connection",
                "process 30 (stripline): does not answer",
                "20 components of `radar` (process 10, 11, 12 and 17 others): does not answer",
                "2 processes of the parent 39 (process 40, 41): does not answer",
            ]
        );
        assert!(lines(&[], |_| None, |_| None).is_empty());
    }
}
