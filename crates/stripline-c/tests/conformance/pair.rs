//! Two ends of a link, and the combinations of languages that a rule runs with.

use crate::languages::{End, Language};
use crate::message_queue_turn::MessageQueueTurn;
use crate::support::{await_asleep, await_that, await_thread_asleep, await_thread_end, domain, threads};

/// Runs a rule with every combination of languages.
pub fn run(transport: &'static str, rule: fn(&mut Pair)) {
    let _turn = MessageQueueTurn::take(transport);
    let languages = Language::all();
    for from in &languages {
        for to in &languages {
            let is_one = transport == "inproc";
            if is_one && from != to {
                continue;
            }
            // The test harness shows this line only if the rule fails.
            println!("{transport}: {from} to {to}");
            let receiver = (!is_one).then(|| End::of(*to));
            let mut pair = Pair {
                transport,
                languages: languages.clone(),
                sender: Some(End::of(*from)),
                receiver,
                domain: String::new(),
                topics: String::new(),
            };
            rule(&mut pair);
            pair.sender.into_iter().chain(pair.receiver).for_each(End::free);
        }
    }
}

/// Both ends of a link.
pub struct Pair {
    pub transport: &'static str,
    /// All languages that have a program.
    pub languages: Vec<Language>,
    sender: Option<End>,
    /// `None`: the sender's program has both ends, over a transport within one process.
    receiver: Option<End>,
    domain: String,
    topics: String,
}

impl Pair {
    pub fn sender(&mut self) -> &mut End {
        self.sender.as_mut().unwrap()
    }

    pub fn receiver(&mut self) -> &mut End {
        self.receiver.as_mut().or(self.sender.as_mut()).unwrap()
    }

    /// Returns whether one process has both ends.
    pub fn is_one(&self) -> bool {
        self.transport == "inproc"
    }

    /// Returns whether frames travel as a stream of bytes, and not in shared memory.
    pub fn is_stream(&self) -> bool {
        !matches!(self.transport, "inproc" | "shm")
    }

    /// Makes the nodes of both ends in a new domain, with the rules of all topics.
    ///
    /// A message queue holds ten messages, but most rules leave more unread. In this case the
    /// port's queue takes them, by credits.
    pub fn open(&mut self, rules: &str) {
        let small = self.transport == "mqueue" && !rules.contains("flow");
        let credits = if small { "flow = 'credit';" } else { "" };
        self.topics = format!("[default];transport = '{}';{credits}{rules}", self.transport);
        self.domain = domain();
        let node = self.node_command();
        self.sender().ok(&node);
        if let Some(receiver) = &mut self.receiver {
            receiver.ok(&node);
        }
    }

    /// Ends the nodes of both ends.
    pub fn close(&mut self) {
        self.sender().ok("close");
        if let Some(receiver) = &mut self.receiver {
            receiver.ok("close");
        }
    }

    /// Opens the nodes, and connects `out` to `in`, which may hold `hold` packets.
    pub fn link(&mut self, rules: &str, hold: u32) {
        self.open(rules);
        self.receiver().ok(&format!("subscribe in numbers u8 {hold}"));
        self.sender().ok("publish out numbers u8");
        self.sender().ok("receivers out 1");
    }

    /// Starts another program in the domain.
    pub fn another(&self, language: Language) -> End {
        let mut end = End::of(language);
        end.ok(&self.node_command());
        end
    }

    pub fn domain(&self) -> &str {
        &self.domain
    }

    fn node_command(&self) -> String {
        format!("node {} {}", self.domain, self.topics)
    }

    /// Kills the sender; another program in the same language replaces it.
    pub fn kill_sender(&mut self) {
        let killed = self.sender.take().unwrap();
        let language = killed.language;
        killed.kill();
        self.sender = Some(self.another(language));
    }

    /// Kills the receiver; another program in the same language replaces it.
    pub fn kill_receiver(&mut self) {
        let killed = self.receiver.take().unwrap();
        let language = killed.language;
        killed.kill();
        self.receiver = Some(self.another(language));
    }

    /// Waits until an end of this process has `count` peers.
    pub fn await_peers(end: &mut End, name: &str, count: u64) {
        await_that("the peers are as many", || end.number(&format!("peers {name}")) == count);
    }

    /// Waits until `in` has noticed that the sender is gone. No packet is left in the queue then.
    pub fn await_sender_end(&mut self) {
        let receiver = self.receiver();
        await_that("the end is noticed", || {
            receiver.expect("take in 1 0", "empty");
            receiver.order("peers in") == "ok 0"
        });
    }

    /// Opens the nodes, and connects `out` to `in`, which has a thread that fills the receive
    /// queue. Waits until the thread runs under the expected name, and returns the thread's number.
    /// Before that, it cannot be distinguished from a thread that has ended.
    pub fn link_with_pump(&mut self, rules: &str) -> u32 {
        let process = self.receiver().id();
        let pumps =
            || threads(process).into_iter().filter(|thread| is_pump(&thread.name)).map(|pump| pump.id);
        // Threads of an earlier rule that are about to end.
        let others: Vec<u32> = pumps().collect();
        self.link(rules, 0);
        Self::await_peers(self.receiver(), "in", 1);
        let mut found = None;
        await_that("the start of the pump", || {
            found = pumps().find(|pump| !others.contains(pump));
            found.is_some()
        });
        found.unwrap()
    }

    /// Waits until the thread that fills the receive queue of `in` has ended.
    pub fn await_pump_end(&mut self, pump: u32) {
        await_thread_end(self.receiver().id(), pump);
    }

    /// Waits until the thread that fills the receive queue has nothing to do.
    pub fn await_pump_asleep(&mut self, pump: u32) {
        await_thread_asleep(self.receiver().id(), pump);
    }

    /// Waits until the sender sleeps in a command. The command must not have been answered.
    pub fn await_sender_waits(&mut self) {
        let sender = self.sender();
        await_asleep(sender.id());
        assert!(sender.is_silent(), "the sender waits");
    }
}

/// Returns whether a thread of this name fills a receive queue.
fn is_pump(name: &str) -> bool {
    name == "stripline-pump"
}
