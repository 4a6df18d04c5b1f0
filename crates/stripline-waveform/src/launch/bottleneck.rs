//! The search for the receiver that holds up a source.

use super::connection_state::ConnectionState;
use super::report::HeldUp;

/// With fewer readings of the queues than this, the processing time of the receivers decides.
const READINGS_MIN: u32 = 4;
/// The smallest share of the readings, or of the run, at which a receiver counts as the reason for
/// a long delay.
const SHARE_MIN: f64 = 0.1;
/// The share of the next connection in a chain must be at least this part of the share before it.
const FOLLOWS_MIN: f64 = 0.5;

/// Returns the connection with the receiver that holds this component up: the last one in a chain
/// of full queues. `None` means that the component itself takes the time. `behind_s` is the delay:
/// a receiver that is the reason for a short delay needs a small share of the run.
pub(super) fn held_up_by(
    component: usize,
    connections: &[ConnectionState<'_>],
    behind_s: f64,
    duration_s: f64,
) -> Option<HeldUp> {
    let least_share = if duration_s > 0.0 { SHARE_MIN.min(behind_s / duration_s / 2.0) } else { SHARE_MIN };
    let mut at = component;
    let mut found: Option<(&ConnectionState<'_>, f64)> = None;
    // Each component is passed at most once, because a circle has no last connection.
    let mut passed = vec![at];
    loop {
        let least = found.map_or(least_share, |(_, share)| least_share.max(share * FOLLOWS_MIN));
        let next = connections
            .iter()
            .filter(|link| link.from == at && link.may_hold_up())
            .map(|link| (link, share(link, duration_s)))
            .filter(|(_, share)| *share >= least)
            .max_by(|(_, one), (_, other)| one.total_cmp(other));
        let Some((link, _)) = next.filter(|(link, _)| !passed.contains(&link.to)) else { break };
        (found, at) = (next, link.to);
        passed.push(at);
    }
    found.map(|(link, _)| HeldUp {
        connection: link.name.clone(),
        full: link.full_share(),
        unacknowledged: link.unacknowledged_share(),
        service_mean_ns: link.total().service.mean_ns(),
    })
}

/// Returns the share of the time in which the receiver was the bottleneck, from 0 to 1.
fn share(link: &ConnectionState<'_>, duration_s: f64) -> f64 {
    if let Some(share) = link.full_share().filter(|_| link.readings >= READINGS_MIN) {
        return share;
    }
    let total = link.total();
    let busy_ns = total.service.mean_ns().unwrap_or(0.0) * total.counters.packets as f64;
    if duration_s > 0.0 { (busy_ns / 1e9 / duration_s).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use stripline::inspect::WaitReason;
    use stripline::payload::TypeName;
    use stripline::terms::{LinkOptions, Overflow};

    use super::*;
    use crate::plan::{ConnectionPlan, PortRef};
    use crate::transport_choice::TransportChoice;

    fn plan(from: &str, to: &str, overflow: Overflow) -> ConnectionPlan {
        let port = |name: &str| PortRef { component: name.into(), port: "x".into() };
        ConnectionPlan {
            from: port(from),
            to: port(to),
            transport: "shm".into(),
            choice: TransportChoice::default(),
            options: LinkOptions { overflow, ..LinkOptions::default() },
            payload: TypeName::of::<f32>(),
        }
    }

    #[test]
    fn the_last_full_queue_is_the_reason() {
        let block = Overflow::Block;
        let plans = [
            plan("source", "filter", block),
            plan("filter", "sink", block),
            plan("source", "display", Overflow::DropOldest),
            plan("sink", "source", block),
        ];
        let ends = [(0, 1), (1, 2), (0, 3), (2, 0)];
        let of = |full: [u32; 4]| -> Option<String> {
            let mut links: Vec<ConnectionState<'_>> = plans
                .iter()
                .zip(ends)
                .map(|(plan, (from, to))| ConnectionState::new(plan, from, to))
                .collect();
            for (link, full) in links.iter_mut().zip(full) {
                (link.readings, link.full) = (20, full);
            }
            held_up_by(0, &links, 5.0, 5.0).map(|held| held.connection)
        };
        assert_eq!(of([0, 0, 0, 0]), None);
        assert_eq!(of([1, 0, 0, 0]), None, "once is chance");
        assert_eq!(of([19, 0, 0, 0]).as_deref(), Some("source.x -> filter.x"));
        assert_eq!(of([19, 18, 0, 0]).as_deref(), Some("filter.x -> sink.x"));
        assert_eq!(of([19, 3, 0, 0]).as_deref(), Some("source.x -> filter.x"));
        assert_eq!(of([0, 18, 0, 0]), None, "it holds up the filter alone");
        assert_eq!(of([0, 0, 20, 0]), None, "a policy that drops holds up nothing");
        assert_eq!(of([19, 18, 0, 17]).as_deref(), Some("filter.x -> sink.x"), "a circle ends");
    }

    #[test]
    fn a_receiver_that_is_late_once_is_the_reason_for_a_short_delay() {
        let plan = plan("source", "sink", Overflow::Block);
        let mut link = ConnectionState::new(&plan, 0, 1);
        (link.readings, link.full) = (40, 1);
        let held = |behind_s| held_up_by(0, std::slice::from_ref(&link), behind_s, 10.0).is_some();
        assert!(held(0.36) && !held(5.0));
    }

    #[test]
    fn a_wait_for_acknowledgements_holds_a_source_up_under_any_policy() {
        for overflow in [Overflow::Block, Overflow::DropOldest] {
            let plan = plan("source", "sink", overflow);
            let mut link = ConnectionState::new(&plan, 0, 1);
            for reason in [Some(WaitReason::Answer), Some(WaitReason::Answer), None, Some(WaitReason::Full)] {
                link.count_reading(reason);
            }
            let held = held_up_by(0, &[link], 1.0, 1.0).unwrap();
            assert_eq!((held.full, held.unacknowledged), (Some(0.75), Some(0.5)), "{overflow}");
        }
    }

    #[test]
    fn without_readings_the_time_of_service_decides() {
        let plan = plan("source", "sink", Overflow::Block);
        let mut link = ConnectionState::new(&plan, 0, 1);
        link.counters.packets = 10;
        let service = |ns: u64| serde_json::from_str(&format!("[[{ns},10]]")).unwrap();
        let counters = link.counters.clone();
        let mut with = |ns: u64| {
            let last = stripline::internal::FullReport {
                counters: counters.clone(),
                service: service(ns),
                ..Default::default()
            };
            link.last = Some(last);
            held_up_by(0, std::slice::from_ref(&link), 1.0, 1.0)
        };
        assert_eq!(with(1_000_000), None);
        let held = with(90_000_000).unwrap();
        assert_eq!((held.full, held.service_mean_ns), (None, Some(9e7)));
    }
}
