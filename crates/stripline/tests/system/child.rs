//! This test binary, started again in a role, perhaps as another user.

use std::io::{BufRead, BufReader, Lines, PipeReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

const ROLE: &str = "STRIPLINE_SYSTEM_ROLE";
const WORDS: &str = "STRIPLINE_SYSTEM_WORDS";
const USER: &str = "STRIPLINE_SYSTEM_USER";
const GROUPS: &str = "STRIPLINE_SYSTEM_GROUPS";
const LOCK_LIMIT: &str = "STRIPLINE_SYSTEM_LOCK_LIMIT";
/// Before every answer, because the test harness writes to the same pipe.
const MARK: &str = "@@";
/// Longer than anything takes on a busy machine: only a hang is cut short by it.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A process in a role. Killed and waited for when dropped.
pub struct Actor {
    child: Child,
    orders: Option<ChildStdin>,
    /// What it writes, also to standard error.
    lines: Lines<BufReader<PipeReader>>,
}

/// How to start one.
#[derive(Default)]
pub struct Cast<'a> {
    pub words: &'a [&'a str],
    /// The user and group that it becomes, with these supplementary groups.
    pub user: Option<(u32, &'a [u32])>,
    /// How much memory it may lock, in bytes; no more than this process could.
    pub lock_limit: Option<u64>,
}

impl Actor {
    pub fn start(role: &str, cast: &Cast) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "child_entry", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(WORDS, cast.words.join(" "));
        if let Some((user, groups)) = cast.user {
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            command.env(USER, user.to_string()).env(GROUPS, groups.join(" "));
        }
        if let Some(limit) = cast.lock_limit {
            command.env(LOCK_LIMIT, limit.to_string());
        }
        let (ours, theirs) = std::io::pipe().unwrap();
        command.stdin(Stdio::piped()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let mut child = command.spawn().unwrap();
        let orders = child.stdin.take();
        // With the command goes this process's end of what the child writes to, so that its end is heard.
        drop(command);
        Self { child, orders, lines: BufReader::new(ours).lines() }
    }

    /// The next thing it says.
    pub fn hear(&mut self) -> String {
        let line = self.hear_of(MARK);
        line.split_once(MARK).unwrap().1.trim().into()
    }

    /// The next line of its output with that in it.
    pub fn hear_of(&mut self, part: &str) -> String {
        let mut all = String::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if line.contains(part) {
                return line;
            }
            all.push_str(&(line + "\n"));
        }
        panic!("it has ended without `{part}`:\n{all}");
    }

    /// Tells it to go on.
    pub fn go_on(&mut self) {
        writeln!(self.orders.as_mut().unwrap()).unwrap();
    }

    /// Kills it, and not what it has forked.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Lets it end by itself.
    pub fn end(mut self) {
        self.orders = None;
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// To the test.
pub fn say(what: impl std::fmt::Display) {
    println!("\n{MARK} {what}");
}

/// Until the test says so, or has nothing more to say.
pub fn await_go_on() {
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

pub fn is_root() -> bool {
    geteuid().is_root()
}

/// The number that a line of a file in `/proc` has.
pub fn number(path: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        // Between two looks at something that cannot be waited for; nothing depends on how long it is.
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn play_if_asked() {
    let Ok(role) = std::env::var(ROLE) else { return };
    if let Ok(limit) = std::env::var(LOCK_LIMIT) {
        let limit: u64 = limit.parse().unwrap();
        let maximum = getrlimit(Resource::Memlock).maximum;
        let current = Some(maximum.map_or(limit, |maximum| limit.min(maximum)));
        setrlimit(Resource::Memlock, Rlimit { current, maximum }).unwrap();
    }
    if let (Ok(user), Ok(groups)) = (std::env::var(USER), std::env::var(GROUPS)) {
        let groups: Vec<u32> = groups.split_whitespace().map(|group| group.parse().unwrap()).collect();
        become_user(user.parse().unwrap(), &groups);
    }
    let words = std::env::var(WORDS).unwrap();
    let words: Vec<&str> = words.split_whitespace().collect();
    match &*role {
        "fork-packets" => crate::fork::packets(words[0]),
        "fork-traffic" => crate::fork::traffic(words[0]),
        "fork-calls" => crate::fork::calls(words[0]),
        "fork-back" => crate::fork::back(words[0]),
        "fork-survivor" => crate::fork::survivor(words[0], words[1]),
        "hoard" => crate::cost::hoard(words[0]),
        "lock" => crate::memory::lock(),
        "publish" => crate::users::publish(&words),
        "subscribe" => crate::users::subscribe(&words),
        "stranger" => crate::users::stranger(&words),
        _ => panic!("unknown role `{role}`"),
    }
}

/// The whole process becomes that user, with the group of the same number; root may.
fn become_user(user: u32, groups: &[u32]) {
    // SAFETY: the list lives across the call and is as long as said; the other two take plain numbers. The C library
    // applies all three to every thread.
    let answers =
        unsafe { [libc::setgroups(groups.len(), groups.as_ptr()), libc::setgid(user), libc::setuid(user)] };
    assert_eq!(answers, [0; 3], "{}", std::io::Error::last_os_error());
}
