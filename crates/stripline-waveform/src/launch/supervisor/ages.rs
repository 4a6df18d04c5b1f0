//! The limits on the age of samples.

use std::time::Instant;

use super::Supervisor;
use crate::launch::age_watch::{Hop, longest};
use crate::launch::connection_state::ConnectionState;
use crate::text::{age, time};

/// The share of the time in which a sender waits for room, from which its queue counts as full.
const FULL_SHARE: f64 = 0.5;

impl Supervisor<'_> {
    /// Warns about connections with samples that are older than the limit.
    pub(super) fn check_ages(&mut self) {
        let now = Instant::now();
        let mut found = Vec::new();
        for (index, link) in self.connections.iter_mut().enumerate() {
            let (Some(limit), Some(ages)) = (link.plan.age_limit_ms, link.ages_now()) else { continue };
            let is_above = ages.last_ns > i64::from(limit) * 1_000_000;
            if link.ages.is_due(ages.samples, is_above, now) {
                found.push((index, limit, age(ages.last_ns, &ages)));
            }
        }
        for (index, limit, old) in found {
            let link = &self.connections[index];
            let place = place(&self.connections, index);
            let text = format!(
                "the samples over `{}` are {old} old, above age-limit-ms = {limit}{place}",
                link.name
            );
            self.observer.warning(&link.plan.to.component, &text);
        }
    }
}

/// Returns the words for the place where the most time went.
fn place(links: &[ConnectionState<'_>], index: usize) -> String {
    let hop = |link: &ConnectionState<'_>| Hop {
        from: link.from,
        to: link.to,
        age_ns: link.ages_now().map(|ages| ages.last_ns),
    };
    let hops: Vec<Hop> = links.iter().map(hop).collect();
    let Some((at, before, part_ns)) = longest(&hops, index) else { return String::new() };
    let (link, part) = (&links[at], time(Some(part_ns.unsigned_abs())));
    let sender = &link.plan.from.component;
    let Some(before) = before else {
        let is_source = links.iter().all(|other| other.to != link.from);
        let why = match is_source {
            true => format!("at the source `{sender}`, or before it"),
            false => format!("the inputs of `{sender}` have no ages"),
        };
        return format!("; {part} of it before `{}`: {why}", link.plan.to);
    };
    if link.full_share().is_some_and(|share| share >= FULL_SHARE) {
        let receiver = &link.plan.to.component;
        return format!(
            "; {part} of it in the queue of `{}`, which is full: `{receiver}` is slow",
            link.name
        );
    }
    let inputs = format!("between `{}` and `{}`", links[before].plan.to, link.plan.to);
    format!("; {part} of it {inputs}: in `{sender}`, or in the queue behind it")
}
