//! Huge pages and locked memory, as the machine provides them.

use std::time::Instant;

use rustix::fs::FlockOperation;
use rustix::process::{Resource, getrlimit};
use stripline::node::{Node, Publisher, Subscriber, Topics};
use stripline::{Error, Received};

use crate::child::{Actor, Cast, DEADLINE, is_root, number, say};

const RESERVED: &str = "/proc/sys/vm/nr_hugepages";
const STATUS: &str = "/proc/self/status";
const MEMINFO: &str = "/proc/meminfo";

/// Locks the number of reserved huge pages against other processes that run these tests. The lock
/// ends when the file is dropped.
fn lock_reservations() -> Option<std::fs::File> {
    let file = std::fs::File::open(RESERVED).ok()?;
    rustix::fs::flock(&file, FlockOperation::LockExclusive).unwrap();
    Some(file)
}

/// Returns the number of huge pages that are neither used nor reserved for a mapping.
fn free_huge_pages() -> u64 {
    number(MEMINFO, "HugePages_Free").unwrap() - number(MEMINFO, "HugePages_Rsvd").unwrap()
}

/// Tries to make a publisher with rings of huge pages, and counts how many pages were free. The
/// function tries again if other programs take or return pages at that moment.
fn publisher_of(node: &Node, needed: u64) -> (u64, stripline::Result<Publisher<u64>>) {
    let deadline = Instant::now() + DEADLINE;
    loop {
        let before = free_huge_pages();
        let outcome = node.publisher::<u64>("numbers");
        let after = free_huge_pages() + if outcome.is_ok() { needed } else { 0 };
        if before == after {
            return (before, outcome);
        }
        assert!(
            Instant::now() < deadline,
            "the number of free huge pages does not settle: {before}, {after}"
        );
    }
}

/// A reservation of huge pages. Dropping it releases the pages.
struct Reservation(String);

impl Reservation {
    /// Reserves `pages` more huge pages, if this process may and the memory is available.
    fn of(pages: u64) -> Option<Self> {
        let before = std::fs::read_to_string(RESERVED).ok()?.trim().to_string();
        let more = before.parse::<u64>().ok()? + pages;
        std::fs::write(RESERVED, more.to_string()).ok()?;
        Some(Self(before))
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let _ = std::fs::write(RESERVED, &self.0);
    }
}

fn node(transport: &str, rules: &str) -> Node {
    let domain = format!("system-{}-{transport}", std::process::id());
    let text = format!("[default]\ntransport = '{transport}'\n{rules}");
    Node::join(&domain, Topics::parse(&text).unwrap()).unwrap()
}

/// Sends several times the ring's capacity.
fn laps(publisher: &mut Publisher<u64>, mut subscriber: Subscriber<u64>) {
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    let thread = std::thread::spawn(move || {
        for number in 0..400 {
            match subscriber.receive_timeout(DEADLINE).unwrap() {
                Received::Packet(packet) => {
                    assert!(packet.len() == 3000 && packet.iter().all(|&n| n == number))
                }
                _ => panic!("packet {number} is missing"),
            };
        }
    });
    for number in 0..400 {
        publisher.send(&[number; 3000]).unwrap();
    }
    thread.join().unwrap();
}

/// Returns the page sizes of the mappings of this process's rings, in bytes.
fn pages_of_rings() -> Vec<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let mut of_ring = false;
    let mut found = Vec::new();
    for line in text.lines() {
        if let Some(size) = line.strip_prefix("KernelPageSize:") {
            if of_ring {
                found.push(size.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024);
            }
        } else if line.contains('-') && line.contains(':') && !line.starts_with(char::is_uppercase) {
            of_ring = line.contains("stripline-ring");
        }
    }
    found
}

// All cases are in a single test, because they depend on the number of reserved pages.
#[test]
fn rings_of_huge_pages_carry_packets_or_are_refused_in_words() {
    let Some(size) = number(MEMINFO, "Hugepagesize").map(|kib| kib * 1024) else {
        let error = node("shm", "huge-pages = true").publisher::<u64>("numbers").err().unwrap();
        assert!(error.to_string().contains("no huge pages"), "{error}");
        return println!("this system has no huge pages; the refusal was tested");
    };
    // These sizes have a certain outcome: one is too small, one fits, and one is larger than the
    // free pages of any machine.
    let error = node("shm", "huge-pages = true\nbuffer = 4096").publisher::<u64>("numbers").err().unwrap();
    assert!(error.to_string().contains(&format!("the next is {size}")), "{error}");

    let _lock = lock_reservations();
    let buffer = size.max(1 << 20);
    let rules = format!("huge-pages = true\nlocked = true\nbuffer = {buffer}");
    let needed = 1 + buffer / size;
    for transport in ["shm", "inproc"] {
        let reservation = Reservation::of(needed);
        let node = node(transport, &rules);
        let (free, outcome) = publisher_of(&node, needed);
        match outcome {
            Ok(mut publisher) => {
                assert!(free >= needed, "{free} are free, {needed} are needed");
                let subscriber = node.subscriber("numbers").unwrap();
                laps(&mut publisher, subscriber);
                let mut late = node.subscriber::<u64>("numbers").unwrap();
                assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
                publisher.send(&[7]).unwrap();
                assert!(matches!(late.receive_timeout(DEADLINE).unwrap(), Received::Packet(p) if p[0] == 7));
                let sizes = pages_of_rings();
                // On each side, these are the control page and the ring, and the ring again.
                assert!(sizes.iter().filter(|&&bytes| bytes == size).count() >= 4, "{sizes:?}");
                println!("{transport}: a ring of {needed} huge pages of {size} bytes");
            }
            Err(error) => {
                let text = error.to_string();
                assert!(free < needed || text.contains("control group"), "{free} are free: {text}");
                for part in [format!("{needed} huge pages"), format!("{free} of them free")] {
                    assert!(text.contains(&part), "{text}");
                }
                println!("{transport}: no huge pages to be had; refused: {text}");
            }
        }
        drop(node);
        drop(reservation);
    }
    // The buffer is far larger than the free pages.
    let buffer = 1 << 30;
    let node = node("shm", &format!("huge-pages = true\nbuffer = {buffer}"));
    let (free, outcome) = publisher_of(&node, 1 + buffer / size);
    let error = outcome.err();
    if free * size < buffer {
        let text = error.unwrap().to_string();
        assert!(text.contains("vm.nr_hugepages=") && text.contains("are reserved"), "{text}");
    }
}

#[test]
fn locked_rings_are_locked_on_both_sides_or_refused_in_words() {
    let mut actor = Actor::start("lock", &Cast::default());
    let said = actor.hear();
    println!("with this user's limit: {said}");
    // The outcome depends on the user's limit. Both of these are valid, and all others are not.
    let refused = said.contains("RLIMIT_MEMLOCK") || said == "only the sending side";
    assert!(said.starts_with("locked") || refused, "{said}");
    assert!(!is_root() || said.starts_with("locked"), "{said}");
    actor.end();

    // The process runs without the privilege to exceed the limit, like any user but root.
    let user = is_root().then_some((65_534, &[][..]));
    let cast = Cast { lock_limit: Some(1 << 16), user, ..Cast::default() };
    let mut actor = Actor::start("lock", &cast);
    let said = actor.hear();
    for part in ["cannot lock 135168 bytes", "is 65536 bytes", "ulimit -l", "LimitMEMLOCK", "CAP_IPC_LOCK"] {
        assert!(said.contains(part), "{said}");
    }
    println!("with a limit of 64 KiB: {said}");
    actor.end();

    // The limit is enough for the sending side only, if that much is allowed at all.
    let limit = 200 << 10;
    let mut actor = Actor::start("lock", &Cast { lock_limit: Some(limit), ..cast });
    let said = actor.hear_of("cannot lock 135168 bytes");
    println!("with a limit of 200 KiB: {said}");
    if getrlimit(Resource::Memlock).maximum.is_none_or(|maximum| maximum >= limit) {
        assert!(said.contains("139264 are in use"), "{said}");
        assert_eq!(actor.hear(), "only the sending side");
    }
    actor.end();
}

/// Creates a locked ring with a reader. Prints the locked amount, or the reason for the failure.
pub fn lock() {
    let node = node("shm", "locked = true\nbuffer = 65536");
    let before = number(STATUS, "VmLck").unwrap();
    let mut publisher = match node.publisher::<u64>("numbers") {
        Ok(publisher) => publisher,
        Err(error) => return say(error),
    };
    let sending = number(STATUS, "VmLck").unwrap() - before;
    // Existing senders are connected when this returns, or never.
    let mut subscriber = node.subscriber("numbers").unwrap();
    if subscriber.senders() == 0 {
        return say("only the sending side");
    }
    assert!(publisher.wait_for_receivers(1, DEADLINE).unwrap());
    let both = number(STATUS, "VmLck").unwrap() - before;
    // On each side: control page, ring and mirror; and a cursor each.
    assert_eq!((sending, both), (4 + 128, 2 * (4 + 128 + 4)));
    laps(&mut publisher, subscriber);
    say(format!("locked {both} KiB"));
}

#[test]
fn transports_without_a_ring_refuse_memory_rules() {
    for key in ["huge-pages", "locked"] {
        for transport in ["uds", "tcp", "udp"] {
            let text = format!("[default]\ntransport = '{transport}'\n{key} = true");
            let error = Topics::parse(&text).unwrap_err();
            let text = error.to_string();
            for part in [transport, key, "inproc or shm"] {
                assert!(text.contains(part), "{text}");
            }
        }
    }
    let options = stripline::terms::LinkOptions { locked: true, ..Default::default() };
    let error = stripline::transport::check("uds", &options).unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }));
}
