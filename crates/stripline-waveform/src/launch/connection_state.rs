//! The state of one connection in the launcher.

use std::collections::VecDeque;

use stripline::inspect::AgeReport;
use stripline::internal::control::{ConnectionAssignment, LauncherCommand};
use stripline::internal::{Endpoint, FullReport};
use stripline::link::ConnectionReport;

use super::age_watch::AgeWatch;
use crate::plan::ConnectionPlan;
use crate::transport_choice::ChosenBy;

/// The meaning of a receiver's report about an order to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConnectReport {
    /// The report is about the connection: the order was the last one.
    Connection,
    /// The report is about the move with this number.
    Move(u64),
    /// The report is about an order that was replaced by a later one, or is void.
    Earlier,
}

/// The state of one connection.
pub(super) struct ConnectionState<'a> {
    pub plan: &'a ConnectionPlan,
    /// The transport of the plan, or the transport to which the connection was moved.
    pub transport: String,
    /// Whether the connection was moved.
    pub was_moved: bool,
    /// The name in all reports.
    pub name: String,
    /// The sending and the receiving component, as indices into the components of the waveform.
    pub from: usize,
    pub to: usize,
    /// Packets sent by all incarnations of the sender; `None` if one died without a report.
    pub sent: Option<u64>,
    /// The receiver was ordered to connect.
    pub ordered: bool,
    pub connected: bool,
    /// Orders to connect that the receiver has not reported on, oldest first. An order for a move
    /// has the number of the move.
    unanswered: VecDeque<Option<u64>>,
    /// Consecutive failures to connect.
    pub attempts: u32,
    /// The measurements of earlier incarnations of the receiver.
    before: FullReport,
    /// The counters of the present incarnation so far.
    pub counters: ConnectionReport,
    /// The measurements of the present incarnation, once it has ended.
    pub last: Option<FullReport>,
    /// The figures of a receiver that died are missing.
    pub partial: bool,
    /// The waits of the sender for room and for acknowledgements, and of the receiving port for
    /// packets.
    pub room: WaitMeter,
    pub ack: WaitMeter,
    pub idle: WaitMeter,
    pub ages: AgeWatch,
}

/// The part of the time that a port waits for one reason.
#[derive(Default)]
pub(super) struct WaitMeter {
    /// The time of the last reading, and the waits up to then.
    last: Option<(u64, u64)>,
    /// The waits in the whole run.
    pub all: WaitShare,
    /// The waits while a source is behind its pace.
    pub late: WaitShare,
}

/// The sum of some waits, and of the time in which they were measured, in nanoseconds.
#[derive(Clone, Copy, Default)]
pub(super) struct WaitShare {
    pub waited: u64,
    pub of: u64,
}

impl WaitMeter {
    /// Adds the waits since the reading before. `waited` has all waits of the port so far.
    pub(super) fn read(&mut self, at: u64, waited: u64, is_late: bool) {
        let Some((at_before, before)) = self.last.replace((at, waited)) else { return };
        // A sum that falls to less than half is the sum of another incarnation, or of another path.
        // Two threads measure, so the sum of one incarnation may fall a little.
        let waited = if waited < before / 2 { waited } else { waited.saturating_sub(before) };
        let of = at.saturating_sub(at_before);
        for share in [Some(&mut self.all), is_late.then_some(&mut self.late)].into_iter().flatten() {
            share.waited = share.waited.saturating_add(waited);
            share.of = share.of.saturating_add(of);
        }
    }
}

impl WaitShare {
    /// Returns the waits after an earlier sum.
    pub(super) fn since(&self, earlier: Self) -> Self {
        Self { waited: self.waited.saturating_sub(earlier.waited), of: self.of.saturating_sub(earlier.of) }
    }

    /// Returns the share, from 0 to 1; `None` without two readings.
    pub(super) fn get(&self) -> Option<f64> {
        (self.of > 0).then(|| (self.waited as f64 / self.of as f64).min(1.0))
    }
}

impl<'a> ConnectionState<'a> {
    pub(super) fn new(plan: &'a ConnectionPlan, from: usize, to: usize) -> Self {
        Self {
            plan,
            transport: plan.transport.clone(),
            was_moved: false,
            name: format!("{} -> {}", plan.from, plan.to),
            from,
            to,
            sent: Some(0),
            ordered: false,
            connected: false,
            unanswered: VecDeque::new(),
            attempts: 0,
            before: FullReport::default(),
            counters: ConnectionReport::default(),
            last: None,
            partial: false,
            room: WaitMeter::default(),
            ack: WaitMeter::default(),
            idle: WaitMeter::default(),
            ages: AgeWatch::default(),
        }
    }

    /// Returns the origin of the current transport.
    pub(super) fn chosen_by(&self) -> ChosenBy {
        if self.was_moved { ChosenBy::Set } else { self.plan.choice.by }
    }

    /// Returns the command to connect to the sender's port. With `moves`, the new path is made
    /// beside the present one, which the sender will leave.
    pub(super) fn connect(&self, endpoint: Endpoint, moves: bool) -> LauncherCommand {
        LauncherCommand::Connect(Box::new(ConnectionAssignment {
            component: self.plan.to.component.clone(),
            port: self.plan.to.port.clone(),
            connection: self.name.clone(),
            payload: self.plan.payload.clone(),
            options: self.plan.options,
            endpoint,
            moves,
        }))
    }

    /// Returns the command not to wait for the connection. The command is sent after the sender has
    /// ended.
    pub(super) fn abandon(&self) -> LauncherCommand {
        LauncherCommand::Abandon {
            component: self.plan.to.component.clone(),
            port: self.plan.to.port.clone(),
            connection: self.name.clone(),
        }
    }

    /// Records that the receiver was ordered to connect. The receiver will report the result.
    pub(super) fn order(&mut self) {
        self.ordered = true;
        self.unanswered.push_back(None);
    }

    /// Records that the receiver was ordered to connect to the new path of a move.
    pub(super) fn order_move(&mut self, number: u64) {
        self.unanswered.push_back(Some(number));
    }

    /// Records a report about an order to connect, and returns the meaning of the report. Receivers
    /// report in the order in which they got the orders. The sender or the move of an earlier order
    /// may be gone by now.
    pub(super) fn answer(&mut self) -> ConnectReport {
        match self.unanswered.pop_front().flatten() {
            Some(number) => ConnectReport::Move(number),
            None if self.ordered && !self.unanswered.contains(&None) => ConnectReport::Connection,
            None => ConnectReport::Earlier,
        }
    }

    /// Records that one end is gone, so that the connection will be made again.
    pub(super) fn disconnect(&mut self) {
        (self.ordered, self.connected) = (false, false);
    }

    /// Returns the sum over all incarnations of the receiver.
    pub(super) fn total(&self) -> FullReport {
        let mut total = self.before.clone();
        match &self.last {
            Some(last) => total.add(last),
            None => total.add(&FullReport { counters: self.counters.clone(), ..Default::default() }),
        }
        total
    }

    /// Returns the number of packets that the receivers have taken so far.
    pub(super) fn taken(&self) -> u64 {
        let now = self.last.as_ref().map_or(&self.counters, |last| &last.counters);
        self.before.counters.packets.saturating_add(now.packets)
    }

    /// Returns the ages of the samples that the present receiver has taken.
    pub(super) fn ages_now(&self) -> Option<AgeReport> {
        self.last.as_ref().map_or(&self.counters, |last| &last.counters).age
    }

    /// Returns the waits of the sender, for room and for acknowledgements, and the waits of the
    /// receiving port.
    pub(super) fn waits(&self) -> [WaitShare; 2] {
        let (room, ack) = (self.room.all, self.ack.all);
        let sender = WaitShare { waited: room.waited.saturating_add(ack.waited), of: room.of.max(ack.of) };
        [sender, self.idle.all]
    }

    /// Returns the share of a run's time in which the sender waited; `None` without readings.
    pub(super) fn full_share(&self) -> Option<f64> {
        sum(&self.room.all, &self.ack.all)
    }

    /// Returns the same share of the time in which a source was behind its pace.
    pub(super) fn late_share(&self) -> Option<f64> {
        sum(&self.room.late, &self.ack.late)
    }

    /// Adds the figures of the incarnation of the receiver that has ended to the figures of earlier
    /// ones. An incarnation that never ran has no figures.
    pub(super) fn settle(&mut self, has_run: bool) {
        self.partial |= has_run && self.last.is_none();
        self.before = self.total();
        self.counters = ConnectionReport::default();
        self.last = None;
        self.unanswered.clear();
    }
}

fn sum(room: &WaitShare, ack: &WaitShare) -> Option<f64> {
    Some((room.get()? + ack.get()?).min(1.0))
}

#[cfg(test)]
mod tests {
    use stripline::payload::TypeName;
    use stripline::terms::LinkOptions;

    use super::*;
    use crate::plan::PortRef;
    use crate::transport_choice::TransportChoice;

    fn plan() -> ConnectionPlan {
        let port = |component: &str| PortRef { component: component.into(), port: "x".into() };
        ConnectionPlan {
            from: port("a"),
            to: port("b"),
            transport: "shm".into(),
            choice: TransportChoice::default(),
            options: LinkOptions::default(),
            age_limit_ms: None,
            payload: TypeName::of::<f32>(),
        }
    }

    #[test]
    fn waits_are_measured_between_readings_and_again_after_a_restart() {
        let mut meter = WaitMeter::default();
        meter.read(1_000, 700, true);
        assert_eq!(meter.all.get(), None, "one reading has no length");
        meter.read(2_000, 1_200, false);
        assert_eq!((meter.all.get(), meter.late.get()), (Some(0.5), None));
        meter.read(3_000, 1_199, true);
        assert_eq!((meter.all.get(), meter.late.get()), (Some(0.25), Some(0.0)));
        meter.read(5_000, 500, true);
        assert_eq!((meter.all.get(), meter.late.get()), (Some(0.25), Some(1.0 / 6.0)));
        meter.read(u64::MAX, u64::MAX, true);
        assert_eq!(meter.all.get(), Some(1.0));
    }

    #[test]
    fn a_report_on_an_order_of_a_move_is_for_that_move_alone() {
        let plan = plan();
        let mut link = ConnectionState::new(&plan, 0, 1);
        link.order();
        assert_eq!(link.answer(), ConnectReport::Connection);
        // Two moves; the first was cancelled in the meantime.
        link.order_move(7);
        link.order_move(8);
        assert_eq!([link.answer(), link.answer()], [ConnectReport::Move(7), ConnectReport::Move(8)]);
        link.order_move(9);
        link.disconnect();
        link.order();
        assert_eq!([link.answer(), link.answer()], [ConnectReport::Move(9), ConnectReport::Connection]);
    }

    #[test]
    fn a_report_on_an_order_for_a_dead_sender_is_not_one_on_the_next_order() {
        let plan = plan();
        let mut link = ConnectionState::new(&plan, 0, 1);
        link.order();
        link.disconnect();
        assert_eq!(link.answer(), ConnectReport::Earlier, "its sender has died");
        link.order();
        assert_eq!(link.answer(), ConnectReport::Connection);
        link.disconnect();
        link.order();
        link.disconnect();
        link.order();
        assert_eq!(link.answer(), ConnectReport::Earlier, "the sender of the order before has died");
        assert_eq!(link.answer(), ConnectReport::Connection);
        link.order();
        link.disconnect();
        // A restarted receiver does not report on orders to the previous incarnation.
        link.settle(true);
        link.order();
        assert_eq!(link.answer(), ConnectReport::Connection);
    }
}
