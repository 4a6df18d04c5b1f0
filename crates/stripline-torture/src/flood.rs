//! Connections that send nothing: many at the same time, and many per second. After that, a second
//! publisher that is stopped, or that replies one byte at a time.
//!
//! The measured values are the time until a new subscriber gets the first packet, and the latency
//! of an established link.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixListener, UnixStream};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};
use serde_json::{Value, json};
use stripline::Received;

use crate::child::{TOPIC, join};
use crate::notes::now_ns;
use crate::worker::{TIMEOUT, wait_for_host};

/// The environment variable that holds the role of a child.
const ROLE: &str = "STRIPLINE_FLOOD_ROLE";
/// The transports between processes.
pub const TRANSPORTS: [&str; 3] = ["shm", "uds", "tcp"];
/// The time between two packets of the publisher.
const INTERVAL: Duration = Duration::from_micros(200);
/// Rounds. Every second round has connections; the first and the last round have no connections.
const ROUNDS: usize = 25;
/// Packets in a block of the established link: a tenth of a second. Each block has a separate 99th
/// percentile, so that one disturbance of the machine affects only one block.
const BLOCK: usize = 500;

/// A measurement of a publisher in a separate process.
pub struct Flood {
    /// Connections held open.
    pub connections: u64,
    /// Connections opened per second.
    pub rate: u64,
    /// Seconds during which connections are opened.
    pub seconds: u64,
    /// The only transport; `None` for all of [`TRANSPORTS`].
    pub transport: Option<String>,
    /// New subscribers in each round.
    pub newcomers: usize,
}

impl Flood {
    /// Runs the measurement on each transport between processes.
    ///
    /// # Errors
    /// When a newcomer is not served, a link is disturbed, or a process cannot be started.
    pub fn run(&self) -> Result<Value, String> {
        let mut report = serde_json::Map::new();
        let is_wanted = |name: &&str| self.transport.as_ref().is_none_or(|wanted| wanted == name);
        for transport in TRANSPORTS.into_iter().filter(is_wanted) {
            eprintln!("torture: flood over {transport}");
            report.insert(transport.into(), self.run_on(transport)?);
        }
        Ok(Value::Object(report))
    }

    fn run_on(&self, transport: &str) -> Result<Value, String> {
        let domain = format!("flood-{}-{}", std::process::id(), now_ns());
        let mut publisher = Helper::start(&format!("publish {domain} {transport}"))?;
        publisher.reply()?;
        wait_for_host(&domain)?;
        let established = EstablishedSubscriber::start(&domain, transport)?;
        let addresses = addresses(&domain, publisher.child.id())?;
        let mut flood = Helper::start(&format!("flood {}", addresses.join(" ")))?;
        let before = descriptors(publisher.child.id())?;
        let mut held = Vec::new();
        let mut most = 0;
        for round in 0..ROUNDS {
            let is_flooded = round % 2 == 1;
            if is_flooded {
                flood.order(&format!("open {}", self.connections))?;
                flood.reply()?;
            }
            // Longer than the publisher needs to close most of the connections.
            held.push(self.round(&domain, transport, &established, Duration::from_secs(1))?);
            most = most.max(descriptors(publisher.child.id())?.saturating_sub(before));
            if is_flooded {
                flood.order("close")?;
                flood.reply()?;
            }
        }
        let mut opened = Vec::new();
        let time = Duration::from_secs(self.seconds) / (ROUNDS as u32 / 2);
        for round in 0..ROUNDS {
            if round % 2 == 1 {
                flood.order(&format!("rate {}", self.rate))?;
                flood.reply()?;
            }
            opened.push(self.round(&domain, transport, &established, time)?);
            if round % 2 == 1 {
                flood.order("close")?;
                flood.reply()?;
            }
        }
        let (mut stopped, mut dripping) = (Vec::new(), Vec::new());
        for round in 0..ROUNDS {
            // The publisher is killed at the end of the round.
            let _publisher = (round % 2 == 1).then(|| stopped_publisher(&domain, transport)).transpose()?;
            stopped.push(self.round(&domain, transport, &established, time)?);
        }
        for round in 0..ROUNDS {
            let start = || Helper::start(&format!("drip {domain} {transport}"));
            let mut publisher = (round % 2 == 1).then(start).transpose()?;
            publisher.as_mut().map_or(Ok(()), Helper::reply)?;
            dripping.push(self.round(&domain, transport, &established, time)?);
        }
        established.check()?;
        Ok(json!({
            "addresses": addresses.len(),
            "held": compare(&held),
            "opened": compare(&opened),
            "stopped": compare(&stopped),
            "dripping": compare(&dripping),
            "descriptors": most,
        }))
    }

    /// Starts new subscribers one after the other, for at least this time.
    fn round(
        &self,
        domain: &str,
        transport: &str,
        link: &EstablishedSubscriber,
        time: Duration,
    ) -> Result<FloodRound, String> {
        let started = Instant::now();
        link.take();
        let mut first_packet_ns = Vec::new();
        while first_packet_ns.len() < self.newcomers || started.elapsed() < time {
            first_packet_ns.push(newcomer(domain, transport)?);
        }
        let seconds = started.elapsed().as_secs_f64();
        let mut latencies = link.take();
        let rate = latencies.len() as f64 / seconds;
        let p99_us = latencies.chunks_exact_mut(BLOCK).map(|block| {
            block.sort_unstable();
            block[BLOCK * 99 / 100] as f64 / 1e3
        });
        Ok(FloodRound {
            first_packet_ms: vec![median(first_packet_ns.iter().map(|ns| *ns as f64 / 1e6))],
            first_newcomer_ms: first_packet_ns.first().map(|ns| *ns as f64 / 1e6).into_iter().collect(),
            p99_us: p99_us.collect(),
            rate: vec![rate],
        })
    }
}

/// The figures of one round. Medians are taken over the figures of all rounds.
struct FloodRound {
    first_packet_ms: Vec<f64>,
    /// The time of the first new subscriber, right after the connections were opened.
    first_newcomer_ms: Vec<f64>,
    /// The 99th percentile of each block of the established link.
    p99_us: Vec<f64>,
    rate: Vec<f64>,
}

/// Compares the medians of the rounds with connections, or with a second publisher, to the medians
/// of the rounds without.
///
/// For the null comparison, every second round without connections is compared to the other rounds
/// without connections.
fn compare(rounds: &[FloodRound]) -> Value {
    let with = |index: usize| index % 2 == 1;
    let of = |wanted: &dyn Fn(usize) -> bool, figure: fn(&FloodRound) -> &[f64]| {
        let rounds = rounds.iter().enumerate().filter(|(index, _)| wanted(*index));
        median(rounds.flat_map(|(_, round)| figure(round)).copied())
    };
    let figure = |figure: fn(&FloodRound) -> &[f64]| {
        let (flooded, quiet) = (of(&with, figure), of(&|index| !with(index), figure));
        let null_ratio = of(&|index| index % 4 == 0, figure) / of(&|index| index % 4 == 2, figure);
        json!({"without": quiet, "with": flooded, "ratio": flooded / quiet, "null": null_ratio})
    };
    json!({
        "first_packet_ms": figure(|round| &round.first_packet_ms),
        "first_newcomer_ms": figure(|round| &round.first_newcomer_ms),
        "established_p99_us": figure(|round| &round.p99_us),
        "established_packets_per_s": figure(|round| &round.rate),
    })
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Starts another publisher of the topic, which sends nothing, and stops the process.
fn stopped_publisher(domain: &str, transport: &str) -> Result<Helper, String> {
    let mut publisher = Helper::start(&format!("idle {domain} {transport}"))?;
    publisher.reply()?;
    let pid = Pid::from_child(&publisher.child);
    kill_process(pid, Signal::STOP).map_err(|e| format!("a publisher cannot be stopped: {e}"))?;
    Ok(publisher)
}

/// Joins as a new node, and returns the time until the first packet.
fn newcomer(domain: &str, transport: &str) -> Result<u64, String> {
    let started = Instant::now();
    let node = join(domain, &topics(transport))?;
    let mut subscriber = node.subscriber::<u64>(TOPIC).map_err(|e| e.to_string())?;
    match subscriber.receive_timeout(TIMEOUT).map_err(|e| e.to_string())? {
        Received::Packet(_) => Ok(started.elapsed().as_nanos() as u64),
        _ => Err(format!("a newcomer has no packet after {TIMEOUT:?}")),
    }
}

/// A subscriber that was connected before, on a separate thread.
struct EstablishedSubscriber {
    latencies_ns: Arc<Mutex<Vec<u64>>>,
    next: Arc<AtomicU64>,
}

impl EstablishedSubscriber {
    fn start(domain: &str, transport: &str) -> Result<Self, String> {
        let node = join(domain, &topics(transport))?;
        let mut subscriber = node.subscriber::<u64>(TOPIC).map_err(|e| e.to_string())?;
        let (latencies_ns, next) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicU64::new(0)));
        let (taken, reached) = (Arc::clone(&latencies_ns), Arc::clone(&next));
        std::thread::spawn(move || {
            let _node = node;
            let mut expected = None;
            while let Ok(Some(packet)) = subscriber.receive() {
                let received_ns = now_ns();
                // Any number other than the next one is a gap, which is recorded as 0.
                let is_next = expected.is_none_or(|expected| expected == packet.sequence());
                expected = Some(packet.sequence() + 1);
                // Relaxed: the number is read independently of other data.
                reached.store(if is_next { packet.sequence() } else { 0 }, Ordering::Relaxed);
                if !is_next {
                    return;
                }
                let mut latencies = taken.lock().unwrap_or_else(PoisonError::into_inner);
                latencies.push(received_ns.saturating_sub(packet[0]));
            }
        });
        Ok(Self { latencies_ns, next })
    }

    fn take(&self) -> Vec<u64> {
        std::mem::take(&mut *self.latencies_ns.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn check(&self) -> Result<(), String> {
        // Relaxed: for the same reason as the store.
        match self.next.load(Ordering::Relaxed) {
            0 => Err("the established link has lost a packet".into()),
            _ => Ok(()),
        }
    }
}

fn topics(transport: &str) -> String {
    format!("[default]\ntransport = '{transport}'\nwait = 'block'")
}

/// Returns the abstract names and addresses at which the publisher's process listens.
fn addresses(domain: &str, process: u32) -> Result<Vec<String>, String> {
    let prefixes = [
        format!("stripline-{}-{domain}", rustix::process::geteuid().as_raw()),
        format!("stripline-links-{}-{process}-", rustix::process::geteuid().as_raw()),
    ];
    let list = std::fs::read_to_string("/proc/net/unix").map_err(|e| format!("/proc/net/unix: {e}"))?;
    let names = list.lines().filter_map(|line| line.split_whitespace().last()?.strip_prefix('@'));
    let mut addresses: Vec<String> = names
        .filter(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
        .map(str::to_string)
        .collect();
    addresses.sort();
    addresses.dedup();
    // A process that does not answer in time is not listed, so this loop tries again.
    let until = Instant::now() + TIMEOUT;
    let mut sending = Vec::new();
    while sending.is_empty() && Instant::now() < until {
        let overview = stripline::inspect::processes().map_err(|e| e.to_string())?;
        let own = overview.processes.into_iter().filter(|one| one.pid == process);
        sending = own.flat_map(|one| one.sending).collect();
    }
    addresses.extend(sending.into_iter().map(|port| port.address));
    if addresses.len() == 3 {
        Ok(addresses)
    } else {
        Err(format!("three addresses were expected: {addresses:?}"))
    }
}

fn descriptors(process: u32) -> Result<usize, String> {
    let path = format!("/proc/{process}/fd");
    Ok(std::fs::read_dir(&path).map_err(|e| format!("{path}: {e}"))?.count())
}

/// A child that runs commands, one per line, and is killed when this value is dropped.
struct Helper {
    child: Child,
    orders: ChildStdin,
    replies: BufReader<ChildStdout>,
}

impl Helper {
    fn start(role: &str) -> Result<Self, String> {
        let mut command = Command::new("/proc/self/exe");
        command.env(ROLE, role).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(|e| format!("cannot start a process: {e}"))?;
        let (orders, replies) = (child.stdin.take(), child.stdout.take());
        let (Some(orders), Some(replies)) = (orders, replies) else {
            return Err("a child without pipes".into());
        };
        Ok(Self { child, orders, replies: BufReader::new(replies) })
    }

    fn order(&mut self, order: &str) -> Result<(), String> {
        writeln!(self.orders, "{order}").map_err(|e| format!("a child has ended: {e}"))
    }

    fn reply(&mut self) -> Result<(), String> {
        let mut line = String::new();
        self.replies.read_line(&mut line).map_err(|e| e.to_string())?;
        if line.trim() == "done" { Ok(()) } else { Err(format!("a child answered `{}`", line.trim())) }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs the role in the environment, if there is one, and returns the exit code.
pub fn play_if_asked() -> Option<u8> {
    let role = std::env::var(ROLE).ok()?;
    // Children must not outlive the parent.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let words: Vec<&str> = role.split_whitespace().collect();
    let played = match words[..] {
        ["publish", domain, transport] => publish(domain, transport),
        ["idle", domain, transport] => idle(domain, transport),
        ["drip", domain, transport] => drip(domain, transport),
        ["flood", ref addresses @ ..] => flood(addresses),
        _ => Err(format!("`{role}` is not a role")),
    };
    match played {
        Ok(()) => Some(0),
        Err(problem) => {
            eprintln!("torture: a child: {problem}");
            Some(1)
        }
    }
}

fn publish(domain: &str, transport: &str) -> Result<(), String> {
    let node = join(domain, &topics(transport))?;
    let mut publisher = node.publisher::<u64>(TOPIC).map_err(|e| e.to_string())?;
    println!("done");
    let mut next = Instant::now();
    loop {
        publisher.send(&[now_ns()]).map_err(|e| e.to_string())?;
        next += INTERVAL;
        std::thread::sleep(next.saturating_duration_since(Instant::now()));
    }
}

/// Publishes nothing. Prints the word `done` as the answer, once the established subscriber has
/// connected.
fn idle(domain: &str, transport: &str) -> Result<(), String> {
    let node = join(domain, &topics(transport))?;
    let mut publisher = node.publisher::<u64>(TOPIC).map_err(|e| e.to_string())?;
    // By then, all nodes have received the offer of this publisher.
    if !publisher.wait_for_receivers(1, TIMEOUT).map_err(|e| e.to_string())? {
        return Err(format!("the established subscriber has not connected after {TIMEOUT:?}"));
    }
    println!("done");
    // Keep running until the process is killed.
    loop {
        std::thread::park();
    }
}

/// A function that accepts a connection.
type Accept = Box<dyn Fn() -> std::io::Result<Box<dyn Write + Send>>>;

/// Offers a publisher that replies one byte at a time, according to docs/wire.md. Prints the word
/// `done` as the answer, once a subscriber has connected.
fn drip(domain: &str, transport: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("no offer: {e}");
    let (accept, address): (Accept, _) = match transport {
        "tcp" => {
            let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
            let address = listener.local_addr().map_err(failed)?.to_string();
            (Box::new(move || Ok(Box::new(listener.accept()?.0))), address)
        }
        _ => {
            let address = format!("stripline-{:016x}", now_ns());
            let name = UnixAddress::from_abstract_name(&address).map_err(failed)?;
            let listener = UnixListener::bind_addr(&name).map_err(failed)?;
            (Box::new(move || Ok(Box::new(listener.accept()?.0))), address)
        }
    };
    let host = format!("stripline-{}-{domain}", rustix::process::geteuid().as_raw());
    let host = UnixAddress::from_abstract_name(host).and_then(|name| UnixStream::connect_addr(&name));
    let mut host = host.map_err(failed)?;
    let endpoint = json!({"transport": transport, "address": address, "keys": [1, 2]});
    let offer =
        json!({"topic": TOPIC, "payload": "u64", "endpoint": endpoint, "process": std::process::id()});
    for message in [json!({"Join": {"version": 1}}), json!({"Offer": offer})] {
        let text = message.to_string();
        host.write_all(&(text.len() as u32).to_le_bytes()).map_err(failed)?;
        host.write_all(text.as_bytes()).map_err(failed)?;
    }
    for connection in 0.. {
        let mut subscriber = accept().map_err(failed)?;
        if connection == 0 {
            println!("done");
        }
        std::thread::spawn(move || {
            // The header of a reply of 8192 bytes, followed by spaces.
            let header = *b"SLNK\x05\0\0\0\0\x20\0\0";
            for byte in header.into_iter().chain(std::iter::repeat(b' ')) {
                if subscriber.write_all(&[byte]).is_err() {
                    return;
                }
                std::thread::sleep(Duration::from_millis(50));
            }
        });
    }
    Ok(())
}

fn flood(addresses: &[&str]) -> Result<(), String> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .map_err(|e| format!("more open files are not allowed: {e}"))?;
    let connections: Arc<Mutex<Vec<OwnedFd>>> = Arc::default();
    // Connections per second.
    let rate = Arc::new(AtomicU64::new(0));
    let (current, kept) = (Arc::clone(&rate), Arc::clone(&connections));
    let own: Vec<String> = addresses.iter().map(|address| (*address).to_string()).collect();
    std::thread::spawn(move || {
        for address in own.iter().cycle() {
            // Relaxed: the number is read independently of other data.
            let rate = current.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(if rate == 0 { 10 } else { 1000 / rate.min(1000) }));
            if rate > 0
                && let Ok(connection) = connect(address)
            {
                kept.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
            }
        }
    });
    for order in std::io::stdin().lines() {
        let order = order.map_err(|e| e.to_string())?;
        match order.split_once(' ').unwrap_or((&order, "0")) {
            ("open", count) => {
                for address in addresses.iter().cycle().take(count.parse().unwrap_or(0)) {
                    let connection = connect(address)?;
                    connections.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
                }
            }
            // Relaxed: the number is read independently of other data.
            ("rate", wanted) => rate.store(wanted.parse().unwrap_or(0), Ordering::Relaxed),
            ("close", _) => {
                rate.store(0, Ordering::Relaxed);
                connections.lock().unwrap_or_else(PoisonError::into_inner).clear();
            }
            _ => return Err(format!("`{order}` is not an order")),
        }
        println!("done");
    }
    Ok(())
}

fn connect(address: &str) -> Result<OwnedFd, String> {
    let connected = match address.parse::<SocketAddr>() {
        Ok(address) => TcpStream::connect(address).map(OwnedFd::from),
        Err(_) => UnixAddress::from_abstract_name(address)
            .and_then(|address| UnixStream::connect_addr(&address))
            .map(OwnedFd::from),
    };
    connected.map_err(|e| format!("cannot connect to {address}: {e}"))
}
