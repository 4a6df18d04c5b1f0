//! This test binary, started again in a role, perhaps as another user.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, PipeReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, geteuid, getrlimit, setrlimit};

const ROLE: &str = "STRIPLINE_SYSTEM_ROLE";
const WORDS: &str = "STRIPLINE_SYSTEM_WORDS";
const USER: &str = "STRIPLINE_SYSTEM_USER";
const GROUPS: &str = "STRIPLINE_SYSTEM_GROUPS";
const LOCK_LIMIT: &str = "STRIPLINE_SYSTEM_LOCK_LIMIT";
/// The prefix of every answer, because the test harness writes to the same pipe.
const MARK: &str = "@@";
/// A time longer than any step takes on a busy machine, so that only a hang reaches this limit.
pub const DEADLINE: Duration = Duration::from_secs(60);

/// A child process in a role. A drop kills the process, and waits for its end.
pub struct Actor {
    child: Child,
    orders: Option<ChildStdin>,
    /// The output of the process, including standard error.
    lines: Lines<BufReader<PipeReader>>,
}

/// The settings of a child process.
#[derive(Default)]
pub struct Cast<'a> {
    pub words: &'a [&'a str],
    /// The user and group that the process becomes, with these supplementary groups.
    pub user: Option<(u32, &'a [u32])>,
    /// The limit of locked memory in bytes, which is at most the limit of this process.
    pub lock_limit: Option<u64>,
    /// The value of `STRIPLINE_RUNTIME_DIR`.
    pub folder: Option<&'a OsStr>,
    /// A program that executes the process, with arguments.
    pub wrapper: &'a [&'a str],
}

impl Actor {
    pub fn start(role: &str, cast: &Cast) -> Self {
        let mut words: Vec<&OsStr> = cast.wrapper.iter().map(OsStr::new).collect();
        let program = std::env::current_exe().unwrap();
        words.push(program.as_os_str());
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command.args(["--exact", "child_entry", "--nocapture", "--test-threads=1"]);
        command.env(ROLE, role).env(WORDS, cast.words.join(" "));
        if let Some((user, groups)) = cast.user {
            let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
            command.env(USER, user.to_string()).env(GROUPS, groups.join(" "));
        }
        if let Some(folder) = cast.folder {
            command.env("STRIPLINE_RUNTIME_DIR", folder);
        }
        if let Some(limit) = cast.lock_limit {
            command.env(LOCK_LIMIT, limit.to_string());
        }
        let (ours, theirs) = std::io::pipe().unwrap();
        command.stdin(Stdio::piped()).stdout(theirs.try_clone().unwrap()).stderr(theirs);
        let mut child = command.spawn().unwrap();
        let orders = child.stdin.take();
        // The command owns this process's copy of the output end, and is dropped so that the pipe
        // ends with the child's exit.
        drop(command);
        Self { child, orders, lines: BufReader::new(ours).lines() }
    }

    /// Returns the next message of the process.
    pub fn hear(&mut self) -> String {
        let line = self.hear_of(MARK);
        line.split_once(MARK).unwrap().1.trim().into()
    }

    /// Returns the next line of output that contains the text.
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

    /// Returns the process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets the process continue.
    pub fn go_on(&mut self) {
        writeln!(self.orders.as_mut().unwrap()).unwrap();
    }

    /// Kills the process, but not the children.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Closes the input of the process, and waits until it exits by itself.
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

/// Prints a message to the test.
pub fn say(what: impl std::fmt::Display) {
    println!("\n{MARK} {what}");
}

/// Waits until the test sends a line or closes the input.
pub fn await_go_on() {
    std::io::stdin().lock().read_line(&mut String::new()).unwrap();
}

pub fn is_root() -> bool {
    geteuid().is_root()
}

/// Returns the number in a line of a file in `/proc`.
pub fn number(path: &str, key: &str) -> Option<u64> {
    let text = std::fs::read_to_string(path).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    line.split_whitespace().next()?.parse().ok()
}

pub fn await_that(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not within {DEADLINE:?}: {what}");
        // The pause is the interval between polls of a condition without a wake-up. No result
        // depends on its length.
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn play_if_asked() {
    let Ok(role) = std::env::var(ROLE) else { return };
    stripline::internal::log_to_stderr();
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
        "meet" => crate::places::meet(&words),
        "network-home" => crate::network::home(&words),
        "network-away" => crate::network::away(&words),
        "join" => crate::places::join(&words),
        "publish" => crate::users::publish(&words),
        "subscribe" => crate::users::subscribe(&words),
        "serve" => crate::flood::serve(&words),
        "flood" => crate::flood::flood(&words),
        "stranger" => crate::users::stranger(&words),
        "topics" => crate::topics::all(&words),
        "publish-one" => crate::topics::publish_one(words[0]),
        "subscribe-one" => crate::topics::subscribe_one(words[0], words[1]),
        "take-name" => crate::users::take_name(words[0]),
        _ => panic!("unknown role `{role}`"),
    }
}

/// Makes the whole process run as that user, with the group of the same number. Only root may do
/// this.
fn become_user(user: u32, groups: &[u32]) {
    // SAFETY: the list lives across the call and has the given length. The other two calls take
    // plain numbers. The C library applies all three to every thread.
    let answers =
        unsafe { [libc::setgroups(groups.len(), groups.as_ptr()), libc::setgid(user), libc::setuid(user)] };
    assert_eq!(answers, [0; 3], "{}", std::io::Error::last_os_error());
}
