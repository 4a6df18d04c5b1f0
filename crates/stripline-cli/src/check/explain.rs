//! `stripline check --explain`: the candidates of each connection, with their rules and costs.

use serde::Serialize;
use stripline::terms::WaitStrategy;
use stripline_bench::calibration::Cost;
use stripline_waveform::internal::{TopicChoice, wrapped};
use stripline_waveform::{Candidate, ChosenBy, ConnectionPlan, TransportChoice};

use crate::calibrate::Costs;
use crate::table::{Cell, Table, Tone};
use crate::terminal;
use stripline_bench::report::ns;

/// The sizes in a calibration, as columns.
const SIZES: [(usize, &str); 3] = [(64, "64 B"), (1024, "1 KiB"), (32_768, "32 KiB")];

/// The transport chosen for a connection or topic, with all candidates.
#[derive(Debug, Serialize)]
pub(crate) struct Explained {
    /// The connection, or the topic.
    name: String,
    transport: String,
    chosen_by: ChosenBy,
    /// The reason of the choice, in words.
    reason: &'static str,
    wait: WaitStrategy,
    candidates: Vec<ExplainedCandidate>,
}

/// A candidate for a connection.
#[derive(Debug, Serialize)]
struct ExplainedCandidate {
    transport: String,
    taken: bool,
    /// The rule that excluded the candidate.
    struck_out: Option<String>,
    /// `None`: not measured.
    costs: Option<Vec<Cost>>,
}

impl Explained {
    pub(crate) fn of_connection(plan: &ConnectionPlan, costs: &Costs) -> Self {
        let reason = match plan.choice.by {
            ChosenBy::Auto => "taken by auto, as the first that no rule strikes out",
            by => named(by),
        };
        let name = format!("{} -> {}", plan.from, plan.to);
        Self::new(name, &plan.transport, reason, plan.options.wait, &plan.choice, costs)
    }

    pub(crate) fn of_topic(topic: &TopicChoice, costs: &Costs) -> Self {
        let reason = match topic.choice.by {
            ChosenBy::Auto => "taken by auto, as the transport between processes of one host",
            by => named(by),
        };
        let name = topic.topic.as_ref().map_or("every other topic".into(), |name| format!("topic {name}"));
        Self::new(name, &topic.transport, reason, topic.wait, &topic.choice, costs)
    }

    fn new(
        name: String,
        transport: &str,
        reason: &'static str,
        wait: WaitStrategy,
        choice: &TransportChoice,
        costs: &Costs,
    ) -> Self {
        let candidate = |Candidate { transport: name, struck_out }: &Candidate| ExplainedCandidate {
            transport: name.clone(),
            taken: name == transport,
            struck_out: struck_out.clone(),
            costs: costs.of(name).map(<[Cost]>::to_vec),
        };
        let candidates = choice.candidates.iter().map(candidate).collect();
        Self { name, transport: transport.into(), chosen_by: choice.by, reason, wait, candidates }
    }

    /// Formats the choice with a table of the candidates.
    pub(crate) fn render(&self) -> String {
        let head = format!("{}: {}, {}", self.name, self.transport, self.reason);
        let is_measured = self.candidates.iter().any(|candidate| candidate.costs.is_some());
        let mut titles = vec!["TRANSPORT"];
        let sizes = SIZES.map(|(_, title)| title);
        match is_measured {
            true => titles.extend(sizes),
            false => titles.push("COST"),
        }
        titles.push("RULE");
        // The smallest and the largest size are also in the table of all costs.
        let mut table = Table::new(&titles).numbers(&sizes).droppable(&[sizes[0], sizes[2]]);
        for candidate in &self.candidates {
            let tone = if candidate.taken { Tone::Good } else { Tone::Plain };
            let mark = if candidate.taken { "*" } else { " " };
            let mut cells = vec![Cell::toned(format!("{mark} {}", candidate.transport), tone)];
            match is_measured {
                true => cells.extend(SIZES.map(|(bytes, _)| self.cost(candidate, bytes).into())),
                false => cells.push("not measured".into()),
            }
            cells.push(self.rule(candidate).into());
            table.add(cells);
        }
        format!("{}\n{}", wrapped(&head, terminal::width(), 2), table.render())
    }

    /// Returns the time of a packet of this size one way, for the wait strategy of the connection's
    /// receiver.
    fn cost(&self, candidate: &ExplainedCandidate, bytes: usize) -> String {
        let costs = candidate.costs.iter().flatten();
        let cost = costs.into_iter().find(|cost| cost.bytes == bytes).map(|cost| match self.wait {
            WaitStrategy::Spin => cost.spinning_ns,
            WaitStrategy::Block | WaitStrategy::Adaptive => cost.asleep_ns,
        });
        cost.map_or("not measured".into(), |time| ns(Some(time)))
    }

    fn rule(&self, candidate: &ExplainedCandidate) -> String {
        match &candidate.struck_out {
            Some(rule) => rule.clone(),
            None if candidate.taken => "taken".into(),
            None => format!("fits, and comes after {}", self.transport),
        }
    }
}

/// Returns the reason of a choice that names the transport.
fn named(by: ChosenBy) -> &'static str {
    match by {
        ChosenBy::Option => "named in --transport",
        _ => "named in the file",
    }
}

/// Returns the text below all connections: the meaning of the columns, and all costs.
pub(crate) fn legend(costs: &Costs) -> String {
    let mark = "* marks the transport that is taken. RULE strikes the others out.";
    let figures = match costs {
        Costs::Measured(..) => {
            " 64 B, 1 KiB, 32 KiB: the time of a packet of that size one way, to a receiver that sleeps, or that \
             spins where the connection has `wait = \"spin\"`. The file does not have the size of a packet. \
             The rule takes no cost into account."
        }
        Costs::Absent(_) | Costs::Ignored(..) => "",
    };
    let text = wrapped(&format!("{mark}{figures}"), terminal::width(), 0);
    format!("{text}\n\n{}", costs.describe())
}
