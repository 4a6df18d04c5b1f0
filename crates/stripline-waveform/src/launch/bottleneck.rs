//! The search for the receiver that holds up a source.

use super::connection_state::ConnectionState;
use super::report::HeldUp;

/// The smallest share of the time in which a sender waits for a receiver that may hold it up.
const SHARE_MIN: f64 = 0.01;
/// Loads that differ by less than this are about equal: where components share processors, their
/// loads vary by as much from run to run.
const ABOUT_EQUAL: f64 = 0.2;

/// A receiver that the source waits for, directly or through other receivers.
struct BusyReceiver<'a> {
    link: &'a ConnectionState<'a>,
    load: f64,
    /// The largest share of the source's waits that the receiver can explain.
    strength: f64,
}

/// Returns the connection with the receiver that holds this component up: the busiest one in the
/// chains of senders that wait. Of several that are about as busy, it is the one that the source
/// waits for most. `None` means that the component itself is the busiest.
///
/// Each share is relative to the time in which a source is behind its pace.
pub(super) fn held_up_by(component: usize, connections: &[ConnectionState<'_>]) -> Option<HeldUp> {
    // Each component is passed at most once, because a circle has no last connection.
    let mut reached = vec![(component, 1.0)];
    let mut found: Vec<BusyReceiver<'_>> = Vec::new();
    let mut next = 0;
    while let Some(&(at, before)) = reached.get(next) {
        next += 1;
        let waits = |link: &&ConnectionState<'_>| link.from == at && share(link) >= SHARE_MIN;
        for link in connections.iter().filter(waits) {
            let strength = share(link).min(before);
            found.push(BusyReceiver { link, load: load(link, connections), strength });
            if !reached.iter().any(|(other, _)| *other == link.to) {
                reached.push((link.to, strength));
            }
        }
    }
    let most = found.iter().map(|found| found.load).max_by(f64::total_cmp)?;
    if most < 1.0 - blocked(component, connections) {
        return None;
    }
    found.retain(|found| found.load > most - ABOUT_EQUAL);
    found.sort_by(|one, other| other.strength.total_cmp(&one.strength));
    let mut links = found.into_iter().map(|found| found.link);
    let link = links.next()?;
    Some(HeldUp {
        connection: link.name.clone(),
        also: links.map(|other| other.name.clone()).collect(),
        full: link.late_share(),
        unacknowledged: link.ack.late.get(),
        service_mean_ns: link.total().service.mean_ns(),
    })
}

/// Returns the share of the time in which the receiver waits neither for its own receivers nor for
/// packets, from 0 to 1. If sender and receiver wait for each other, the connection itself is slow,
/// and counts as a part of the receiver.
fn load(link: &ConnectionState<'_>, connections: &[ConnectionState<'_>]) -> f64 {
    let idle = |link: &ConnectionState<'_>| link.idle.late.get().unwrap_or(0.0);
    let is_other =
        |other: &&ConnectionState<'_>| other.to == link.to && other.plan.to.port != link.plan.to.port;
    let others = connections.iter().filter(is_other).map(idle).fold(0.0, f64::max);
    let idle = idle(link).min(1.0 - share(link)).max(others);
    (1.0 - blocked(link.to, connections) - idle).max(0.0)
}

/// Returns the share of the time in which the component waits for receivers.
fn blocked(component: usize, connections: &[ConnectionState<'_>]) -> f64 {
    connections.iter().filter(|link| link.from == component).map(share).sum::<f64>().min(1.0)
}

fn share(link: &ConnectionState<'_>) -> f64 {
    link.late_share().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use stripline::payload::TypeName;
    use stripline::terms::LinkOptions;

    use super::*;
    use crate::launch::connection_state::WaitShare;
    use crate::plan::{ConnectionPlan, PortRef};
    use crate::transport_choice::TransportChoice;

    /// Returns the verdict on the source `s`, with the connections that are about equal behind it.
    /// Each connection has the percentages of the time in which its sender waits, and in which its
    /// receiver waits for packets. A receiver has one port for each sender.
    fn verdict(links: &[(&str, &str, u64, u64)]) -> Vec<String> {
        let plan = |(from, to, ..): &(&str, &str, u64, u64)| {
            let port = |name: &str, port: &str| PortRef { component: name.into(), port: port.into() };
            ConnectionPlan {
                from: port(from, "out"),
                to: port(to, from),
                transport: "shm".into(),
                choice: TransportChoice::default(),
                options: LinkOptions::default(),
                age_limit_ms: None,
                payload: TypeName::of::<f32>(),
            }
        };
        let plans: Vec<ConnectionPlan> = links.iter().map(plan).collect();
        let index = |name: &str| usize::from(name.as_bytes()[0]);
        let state = |(plan, (from, to, full, idle)): (_, &(&str, &str, u64, u64))| {
            let mut state = ConnectionState::new(plan, index(from), index(to));
            let percent = |waited| WaitShare { waited, of: 100 };
            (state.room.late, state.ack.late) = (percent(*full), percent(0));
            state.idle.late = percent(*idle);
            state
        };
        let states: Vec<ConnectionState<'_>> = plans.iter().zip(links).map(state).collect();
        let held = held_up_by(index("s"), &states);
        let name = |held: HeldUp| [vec![held.connection], held.also].concat();
        let short = |name: String| name.replace(".out -> ", " ").split('.').next().unwrap_or("").into();
        held.map(name).unwrap_or_default().into_iter().map(short).collect()
    }

    #[test]
    fn in_a_line_the_busiest_receiver_is_the_reason() {
        assert_eq!(verdict(&[("s", "a", 90, 0), ("a", "b", 95, 0), ("b", "c", 0, 90)]), ["a b"]);
        let partly = [("s", "a", 95, 0), ("a", "b", 30, 2), ("b", "c", 0, 60)];
        assert_eq!(verdict(&partly), ["a b"], "a works for 70 %, and b for 98 %");
        let seldom = [("s", "a", 90, 0), ("a", "b", 12, 50)];
        assert_eq!(verdict(&seldom), ["s a"], "b is idle for half of the time");
        let circle = [("s", "a", 95, 0), ("a", "b", 90, 0), ("b", "s", 50, 0)];
        assert_eq!(verdict(&circle), ["a b"], "b waits for the source, which waits for a");
    }

    #[test]
    fn receivers_about_as_busy_are_all_named() {
        for (a, b) in [(4, 2), (2, 4), (8, 1), (5, 9)] {
            let chain = [("s", "a", 80, 0), ("a", "b", a, 0), ("b", "c", b, 1)];
            let named = verdict(&chain);
            assert_eq!((&*named[0], named.len()), ("s a", 3), "{a} {b}: {named:?}");
        }
        // The waits for packets are not measured while a thread waits for a processor.
        let starved = [("s", "a", 99, 0), ("a", "b", 83, 0), ("b", "c", 92, 0), ("c", "d", 1, 0)];
        assert_eq!(verdict(&starved), ["b c", "c d"], "c waits for d for 1 %");
    }

    #[test]
    fn a_source_that_is_the_busiest_is_not_held_up() {
        assert!(verdict(&[("s", "a", 0, 20)]).is_empty());
        assert!(verdict(&[("s", "a", 5, 10)]).is_empty(), "a is less busy than the source");
        assert!(verdict(&[("s", "a", 5, 60), ("a", "b", 20, 70)]).is_empty());
        let dropping = [("s", "a", 0, 0), ("a", "b", 95, 0)];
        assert!(verdict(&dropping).is_empty(), "without a wait, no receiver holds it up");
    }

    #[test]
    fn of_branches_the_slow_one_is_the_reason() {
        assert_eq!(verdict(&[("s", "a", 60, 0), ("s", "b", 35, 40)]), ["s a"]);
        assert_eq!(verdict(&[("s", "a", 50, 0), ("s", "b", 45, 3)]), ["s a", "s b"]);
        let deep = [("s", "a", 5, 70), ("s", "b", 90, 0), ("b", "c", 92, 0)];
        assert_eq!(verdict(&deep), ["b c"]);
    }

    #[test]
    fn a_component_that_waits_for_another_input_is_not_the_reason() {
        // The slow branch is s a c, and c takes packets of both branches in turn.
        let join = [("s", "a", 80, 0), ("s", "b", 10, 0), ("b", "c", 85, 0), ("a", "c", 0, 90)];
        assert_eq!(verdict(&join), ["s a"]);
        let behind = [("s", "a", 80, 0), ("s", "b", 10, 0), ("b", "c", 85, 0), ("a", "c", 90, 2)];
        assert_eq!(verdict(&behind), ["a c", "b c"]);
    }

    #[test]
    fn a_slow_connection_is_the_reason_although_its_receiver_is_idle() {
        assert_eq!(verdict(&[("s", "a", 95, 0), ("a", "b", 90, 95)]), ["a b"]);
    }
}
