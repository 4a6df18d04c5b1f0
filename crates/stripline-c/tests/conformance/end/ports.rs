//! The ports of the end in Rust: with type `u8`, and with a type named at run time.

use std::sync::Mutex;
use std::time::Duration;

use stripline::node::{Dispatch, HeldPacket, Holding, Packet, Publisher, Subscriber, Waker, Windowed};
use stripline::payload::{Content, Sendable};
use stripline::terms::Scope;
use stripline::{Error, Gap, GapReason, Received, Result, StreamInfo};

use super::messages::printed;
use super::{Failure, TIMEOUT, number};
use crate::payload::{fill, is_sound, seed};

/// The way in which a packet is sent.
pub struct Sending<'a> {
    pub way: &'a str,
    index: Option<u64>,
    time: Option<i64>,
    intended: Option<u64>,
    scope: Option<Scope>,
    deadline: Option<Duration>,
}

impl<'a> Sending<'a> {
    /// Reads the options of a packet of a row.
    pub fn parse(packet: usize, options: &[&'a str]) -> Self {
        let way = if packet.is_multiple_of(2) { "loan" } else { "send" };
        let mut sending = Self { way, index: None, time: None, intended: None, scope: None, deadline: None };
        for option in options {
            let (key, value) = option.split_once('=').unwrap();
            match key {
                "way" => sending.way = value,
                "index" => sending.index = Some(number(value)),
                "time" => sending.time = Some(number(value)),
                "intended" => sending.intended = Some(number(value)),
                "scope" => sending.scope = Some(value.parse().unwrap()),
                "deadline" => sending.deadline = Some(Duration::from_millis(number(value))),
                _ => panic!("unknown option `{option}`"),
            }
        }
        sending
    }

    fn is_plain(&self) -> bool {
        self.index.is_none()
            && self.time.is_none()
            && self.intended.is_none()
            && self.scope.is_none()
            && self.deadline.is_none()
    }
}

/// A publisher.
pub trait Output {
    fn wait_for_receivers(&mut self, count: usize) -> Result<bool>;
    fn receivers(&mut self) -> usize;
    fn sequence(&self) -> u64;
    fn set_stream(&mut self, stream: StreamInfo);
    fn send(&mut self, samples: usize, sending: &Sending<'_>) -> Result<()>;
    /// Sends several packets in one call.
    fn send_many(&mut self, packets: usize, samples: usize) -> Result<()>;
    /// Sends a message.
    fn send_message(&mut self, message: &[u8]) -> Result<()>;
    /// Opens a loan, and sends it after the function has returned.
    fn lend(&mut self, samples: usize, until: &mut dyn FnMut()) -> Result<()>;
    fn end(&mut self, timeout: Duration) -> Result<()>;
    fn abandon(self: Box<Self>);
    fn waker(&mut self) -> Result<Waker>;
}

/// A subscriber of any kind.
pub trait Input {
    fn senders(&mut self) -> usize;
    fn waker(&mut self) -> Result<Waker>;
    fn take(&mut self, count: usize, timeout: Duration) -> String;
    fn hold(&mut self, timeout: Duration) -> (String, Option<Box<dyn Held>>);
    /// Takes messages.
    fn take_messages(&mut self, count: usize, timeout: Duration) -> String;
    /// Takes the packets that have arrived, at most `limit`.
    fn drain(&mut self, limit: usize) -> String;
    /// Handles packets until the end, or until the handler fails at packet `fails_at`.
    fn handle(&mut self, fails_at: Option<u64>) -> String;
    fn describe(&mut self, timeout: Duration) -> String;
    fn windows(&mut self, count: usize, samples: usize, hop: usize, timeout: Duration) -> String;
}

/// A packet that is held.
pub trait Held {
    fn token(&self) -> String;
    fn refuse(self: Box<Self>, reason: &str);
}

pub fn output<T: Sendable<Item = u8, Value = [u8]>>(publisher: Publisher<T>, topic: &str) -> Box<dyn Output> {
    Box::new(Sender { publisher, seed: seed(topic), next: 0 })
}

pub fn input<T: Content<Item = u8>>(
    subscriber: Subscriber<T>,
    hold: usize,
    topic: &str,
) -> Result<Box<dyn Input>> {
    let kind = if hold == 0 { Kind::Lent(subscriber) } else { Kind::Holding(subscriber.holding(hold)?) };
    Ok(Box::new(Receiver { kind, seed: seed(topic) }))
}

pub fn windows<T: Content<Item = u8>>(subscriber: Subscriber<T>, topic: &str) -> Box<dyn Input> {
    Box::new(Receiver { kind: Kind::Windowed(subscriber.windowed()), seed: seed(topic) })
}

struct Sender<T: Content> {
    publisher: Publisher<T>,
    seed: u64,
    /// The index of the next sample.
    next: u64,
}

impl<T: Sendable<Item = u8, Value = [u8]>> Output for Sender<T> {
    fn wait_for_receivers(&mut self, count: usize) -> Result<bool> {
        self.publisher.wait_for_receivers(count, TIMEOUT)
    }

    fn receivers(&mut self) -> usize {
        self.publisher.receivers()
    }

    fn sequence(&self) -> u64 {
        self.publisher.sequence()
    }

    fn set_stream(&mut self, stream: StreamInfo) {
        self.publisher.set_stream(stream);
    }

    fn send(&mut self, samples: usize, sending: &Sending<'_>) -> Result<()> {
        let bytes = self.publisher.sample_bytes();
        let index = sending.index.unwrap_or(self.next);
        let before = self.publisher.sequence();
        let start = index * bytes as u64;
        let outcome = if sending.way == "loan" || !sending.is_plain() {
            let mut loan = if sending.way == "try" {
                self.publisher.try_loan(samples)?
            } else {
                self.publisher.loan(samples)?
            };
            fill(&mut loan, start, self.seed);
            if let Some(index) = sending.index {
                loan = loan.at_sample(index);
            }
            if let Some(time) = sending.time {
                loan = loan.at_time_ns(time);
            }
            if let Some(intended) = sending.intended {
                loan = loan.intended_ns(intended);
            }
            if let Some(scope) = sending.scope {
                loan = loan.scope(scope);
            }
            if let Some(deadline) = sending.deadline {
                loan = loan.deadline(deadline);
            }
            loan.send()
        } else {
            let mut payload = vec![0; samples * bytes];
            fill(&mut payload, start, self.seed);
            if sending.way == "try" {
                self.publisher.try_send(&payload)
            } else {
                self.publisher.send(&payload)
            }
        };
        // A packet without an acknowledgement is sent, too.
        if self.publisher.sequence() > before {
            self.next = index + samples as u64;
        }
        outcome
    }

    fn send_many(&mut self, packets: usize, samples: usize) -> Result<()> {
        let bytes = samples * self.publisher.sample_bytes();
        let (start, seed) = (self.next * self.publisher.sample_bytes() as u64, self.seed);
        let before = self.publisher.sequence();
        let outcome = self.publisher.send_many(packets, samples, |packet, place| {
            fill(place, start + (packet * bytes) as u64, seed);
        });
        self.next += (self.publisher.sequence() - before) * samples as u64;
        outcome
    }

    fn send_message(&mut self, message: &[u8]) -> Result<()> {
        self.publisher.send(message)
    }

    fn lend(&mut self, samples: usize, until: &mut dyn FnMut()) -> Result<()> {
        let start = self.next * self.publisher.sample_bytes() as u64;
        let mut loan = self.publisher.loan(samples)?;
        fill(&mut loan, start, self.seed);
        until();
        loan.send()?;
        self.next += samples as u64;
        Ok(())
    }

    fn end(&mut self, timeout: Duration) -> Result<()> {
        self.publisher.end(timeout)
    }

    fn abandon(self: Box<Self>) {
        self.publisher.abandon();
    }

    fn waker(&mut self) -> Result<Waker> {
        self.publisher.waker()
    }
}

struct Receiver<T: Content> {
    kind: Kind<T>,
    seed: u64,
}

enum Kind<T: Content> {
    Lent(Subscriber<T>),
    Holding(Holding<T>),
    Windowed(Windowed<T>),
}

/// Returns the token of a packet, or of a window without the last part.
macro_rules! token {
    ($packet:expr, $seed:expr) => {{
        let packet = $packet;
        let (samples, index) = (packet.samples(), packet.sample_index());
        let bytes = if samples == 0 { 1 } else { packet.len() / samples };
        let gap = packet.gap().map(gap_text).unwrap_or_default();
        let bad = if is_sound(packet, index * bytes as u64, $seed) { "" } else { "/bad" };
        format!("{}/{index}/{samples}{gap}{bad}", packet.sequence())
    }};
}

impl<T: Content<Item = u8>> Receiver<T> {
    /// Receives one packet, and returns the result of a function for it, or the outcome.
    fn receive<R>(
        &mut self,
        timeout: Duration,
        lent: impl FnOnce(Packet<'_, T>) -> R,
        held: impl FnOnce(HeldPacket<T>) -> R,
    ) -> Result<R, String> {
        let received = match &mut self.kind {
            Kind::Lent(subscriber) => sort(subscriber.receive_timeout(timeout)).map(lent),
            Kind::Holding(holding) => sort(holding.receive_timeout(timeout)).map(held),
            Kind::Windowed(_) => panic!("a subscriber of windows"),
        };
        received.map_err(|outcome| outcome.unwrap_or_else(|| self.ended()))
    }

    /// Returns the end of stream, with the gap at the very end.
    fn ended(&mut self) -> String {
        let gap = match &mut self.kind {
            Kind::Lent(subscriber) => subscriber.gap_at_end(),
            Kind::Holding(holding) => holding.gap_at_end(),
            Kind::Windowed(windowed) => windowed.gap_at_end(),
        };
        gap.map_or("ended".into(), |gap| format!("ended/{}:{}", gap.packets, gap.samples))
    }
}

impl<T: Content<Item = u8>> Input for Receiver<T> {
    fn senders(&mut self) -> usize {
        match &mut self.kind {
            Kind::Lent(subscriber) => subscriber.senders(),
            Kind::Holding(holding) => holding.senders(),
            Kind::Windowed(_) => panic!("a subscriber of windows does not count its senders"),
        }
    }

    fn waker(&mut self) -> Result<Waker> {
        match &mut self.kind {
            Kind::Lent(subscriber) => subscriber.waker(),
            Kind::Holding(holding) => holding.waker(),
            Kind::Windowed(windowed) => windowed.waker(),
        }
    }

    fn take(&mut self, count: usize, timeout: Duration) -> String {
        let (mut tokens, seed) = (String::new(), self.seed);
        for _ in 0..count {
            match self.receive(timeout, |lent| token!(&lent, seed), |held| token!(&held, seed)) {
                Ok(token) => tokens.push_str(&(token + " ")),
                Err(outcome) => return tokens + &outcome,
            }
        }
        tokens + "done"
    }

    fn take_messages(&mut self, count: usize, timeout: Duration) -> String {
        let mut tokens = String::new();
        let token = |sequence: u64, bytes: &[u8]| format!("{sequence}/{} ", printed(bytes));
        for _ in 0..count {
            let lent = |packet: Packet<'_, T>| token(packet.sequence(), &packet);
            let held = |packet: HeldPacket<T>| token(packet.sequence(), &packet);
            match self.receive(timeout, lent, held) {
                Ok(token) => tokens.push_str(&token),
                Err(outcome) => return tokens + &outcome,
            }
        }
        tokens + "done"
    }

    fn drain(&mut self, limit: usize) -> String {
        let (mut tokens, seed) = (String::new(), self.seed);
        // In Rust, only ports without held packets have `drain`.
        let Kind::Lent(subscriber) = &mut self.kind else { panic!("it drains without holding") };
        match subscriber.drain(limit, |packet| tokens.push_str(&(token!(&packet, seed) + " "))) {
            Ok(_) => tokens + "done",
            Err(error) => tokens + &Failure::from(error).to_string(),
        }
    }

    fn handle(&mut self, fails_at: Option<u64>) -> String {
        let (tokens, seed) = (Mutex::new(String::new()), self.seed);
        let Kind::Lent(subscriber) = &mut self.kind else { panic!("it handles without holding") };
        let outcome = subscriber.serve(Dispatch::Queue, |packet| {
            tokens.lock().unwrap().push_str(&(token!(&packet, seed) + " "));
            match fails_at {
                Some(number) if packet.sequence() == number => {
                    Err(Error::failed("the antenna has fallen over"))
                }
                _ => Ok(()),
            }
        });
        let tokens = tokens.into_inner().unwrap();
        match outcome {
            Ok(()) => tokens + &self.ended(),
            Err(error) => tokens + &Failure::from(error).to_string(),
        }
    }

    fn hold(&mut self, timeout: Duration) -> (String, Option<Box<dyn Held>>) {
        let seed = self.seed;
        let none = |_: Packet<'_, T>| panic!("it holds none");
        let held = |packet: HeldPacket<T>| HeldOne { packet, seed };
        match self.receive(timeout, none, held) {
            Ok(held) => (held.token(), Some(Box::new(held))),
            Err(outcome) => (outcome, None),
        }
    }

    fn describe(&mut self, timeout: Duration) -> String {
        let lent = |packet: Packet<'_, T>| about(packet.time_ns(), packet.intended_ns(), packet.stream());
        let held = |packet: HeldPacket<T>| about(packet.time_ns(), packet.intended_ns(), packet.stream());
        self.receive(timeout, lent, held).unwrap_or_else(|outcome| outcome)
    }

    fn windows(&mut self, count: usize, samples: usize, hop: usize, timeout: Duration) -> String {
        let (mut tokens, seed) = (String::new(), self.seed);
        for _ in 0..count {
            let Kind::Windowed(windowed) = &mut self.kind else { panic!("no subscriber of windows") };
            let token = sort(windowed.window_timeout(samples, timeout)).map(|window| {
                let whole = if window.is_whole() { "whole" } else { "short" };
                let token = format!("{}/{whole} ", token!(&window, seed));
                window.consume(hop);
                token
            });
            match token {
                Ok(token) => tokens.push_str(&token),
                Err(outcome) => return tokens + &outcome.unwrap_or_else(|| self.ended()),
            }
        }
        tokens + "done"
    }
}

struct HeldOne<T: Content> {
    packet: HeldPacket<T>,
    seed: u64,
}

impl<T: Content<Item = u8>> Held for HeldOne<T> {
    fn token(&self) -> String {
        token!(&self.packet, self.seed)
    }

    fn refuse(self: Box<Self>, reason: &str) {
        self.packet.refuse(reason);
    }
}

fn about(time_ns: i64, intended_ns: Option<u64>, stream: &StreamInfo) -> String {
    let set = |number: Option<f64>| number.map_or("-".into(), |number| number.to_string());
    format!(
        "ok {time_ns} {} {} {} {} {} {}",
        intended_ns.unwrap_or(0),
        stream.id,
        set(stream.sample_rate_hz),
        set(stream.center_frequency_hz),
        set(stream.row_length.map(f64::from)),
        serde_json::to_string(stream).unwrap()
    )
}

fn gap_text(gap: &Gap) -> String {
    let reason = match gap.reason {
        GapReason::Overflow => "overflow",
        GapReason::PeerRestart => "peer-restart",
        GapReason::Transport => "transport",
        GapReason::Late => "late",
    };
    format!("/{reason}:{}:{}:{}", gap.first, gap.packets, gap.samples)
}

/// Returns a packet, or the text to print instead: `None` for the end of stream.
fn sort<P>(received: Result<Received<P>>) -> std::result::Result<P, Option<String>> {
    match received {
        Ok(Received::Packet(packet)) => Ok(packet),
        Ok(Received::Empty) => Err(Some("empty".into())),
        Ok(Received::Ended) => Err(None),
        Err(error) => Err(Some(Failure::from(error).to_string())),
    }
}
