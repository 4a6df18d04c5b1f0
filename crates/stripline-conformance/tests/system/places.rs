//! Sockets in the folder of `STRIPLINE_RUNTIME_DIR`. Processes in two network namespaces meet
//! there, and files of killed processes are soon removed. An unfit folder is refused by name.

use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stripline::node::{Node, Topics};
use stripline::{Error, Received};

use crate::child::{Actor, Cast, is_root, say};
use crate::users::{NO_CALL, a_group};

const TRANSPORTS: [&str; 2] = ["shm", "uds"];
const NONE: [PathBuf; 0] = [];
/// The pause between two rounds of a process that sends and receives.
const PAUSE: Duration = Duration::from_millis(1);

/// Returns the command that gives a process a separate network namespace. Empty if the machine does
/// not permit it.
fn own_network() -> &'static [&'static str] {
    let ways: [&[&str]; 2] =
        [&["unshare", "--net", "--"], &["unshare", "--user", "--map-current-user", "--net", "--"]];
    let works = |way: &&[&str]| {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).arg("true").stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    ways.into_iter().find(works).unwrap_or_default()
}

fn network_of(process: u32) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/ns/net")).unwrap()
}

/// Returns the files in the folder that belong to no process.
fn debris(folder: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| UnixStream::connect(path).is_err()).collect()
}

#[test]
fn processes_of_two_networks_meet_in_a_folder_and_survive_kills() {
    let way = own_network();
    let place = tempfile::tempdir().unwrap();
    let domain = format!("places-{}", std::process::id());
    let start = |own: &str, other: &str, number: &str| {
        let words = [&*domain, own, other, number];
        let folder = Some(place.path().as_os_str());
        let mut actor =
            Actor::start("meet", &Cast { words: &words, folder, wrapper: way, ..Cast::default() });
        assert_eq!(actor.hear(), "ready");
        actor
    };
    // The process that starts first hosts the rendezvous.
    let mut left = start("left", "right", "1");
    let mut right = start("right", "left", "2");
    assert_eq!((left.hear(), right.hear()), ("met 2".into(), "met 1".into()));
    if way.is_empty() {
        println!("NOT RUN: two network namespaces. This machine permits none: all ran in one");
    } else {
        let networks = [network_of(left.pid()), network_of(right.pid()), network_of(std::process::id())];
        assert!(networks[0] != networks[1] && !networks[..2].contains(&networks[2]), "{networks:?}");
    }
    // Without the folder, a process is alone.
    let mut stranger = Actor::start("join", &Cast { words: &[&domain], ..Cast::default() });
    assert_eq!(stranger.hear(), "joined");
    stranger.end();

    // The host, which is also a publisher, is killed; then the process that took over.
    left.kill();
    assert!(!debris(place.path()).is_empty(), "a killed process leaves its files");
    let mut left = start("left", "right", "3");
    assert_eq!((left.hear(), right.hear()), ("met 2".into(), "met 3".into()));
    assert_eq!(debris(place.path()), NONE);
    right.kill();
    let mut right = start("right", "left", "4");
    assert_eq!((left.hear(), right.hear()), ("met 4".into(), "met 3".into()));
    assert_eq!(debris(place.path()), NONE);
    left.end();
    right.end();
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(left, NONE, "an end in order leaves nothing");
}

/// Kills the host of several nodes. Another node takes over, and all nodes meet again.
#[test]
fn of_many_nodes_one_follows_a_killed_host() {
    let place = tempfile::tempdir().unwrap();
    let domain = format!("heirs-{}", std::process::id());
    let folder = Some(place.path().as_os_str());
    let mut host = Actor::start("join", &Cast { words: &[&domain], folder, ..Cast::default() });
    assert_eq!(host.hear(), "joined");
    let start = |own: &str, other: &str, number: &str| {
        let words = [&*domain, own, other, number];
        let mut actor = Actor::start("meet", &Cast { words: &words, folder, ..Cast::default() });
        assert_eq!(actor.hear(), "ready");
        actor
    };
    let mut heirs: Vec<_> = ["a", "b", "c", "d"].map(|own| start(own, "late", own_number(own))).into();
    host.kill();
    // The late process reaches all of them, so they have one rendezvous and not several.
    let mut late = start("late", "a", "9");
    for heir in &mut heirs {
        assert_eq!(heir.hear(), "met 9");
    }
    assert_eq!(late.hear(), format!("met {}", own_number("a")));
    assert_eq!(debris(place.path()), NONE);
    heirs.into_iter().for_each(Actor::end);
    late.end();
}

fn own_number(own: &str) -> &'static str {
    match own {
        "a" => "1",
        "b" => "2",
        "c" => "3",
        _ => "4",
    }
}

/// Publishes its number on both transports, and prints each number that arrived on both.
pub fn meet(words: &[&str]) {
    let [domain, own, other, number] = words else { panic!("{words:?}") };
    let topics = |prefix: &str| TRANSPORTS.map(|transport| format!("{prefix}-{transport}"));
    let rules = TRANSPORTS.map(|transport| {
        format!("[topic.{own}-{transport}]\ntransport = '{transport}'\noverflow = 'drop-oldest'\n")
    });
    let node = Node::join(domain, Topics::parse(&rules.concat()).unwrap()).unwrap();
    let mut publishers = topics(own).map(|topic| node.publisher::<u64>(&topic).unwrap());
    let mut subscribers = topics(other).map(|topic| node.subscriber::<u64>(&topic).unwrap());
    say("ready");
    let number: u64 = number.parse().unwrap();
    let ended = end_of_input();
    let (mut last, mut met) = ([0; 2], 0);
    while !ended.load(Ordering::Relaxed) {
        for (publisher, (subscriber, last)) in
            publishers.iter_mut().zip(subscribers.iter_mut().zip(&mut last))
        {
            match publisher.try_send(&[number]) {
                Ok(()) | Err(Error::Full { .. }) => {}
                Err(error) => panic!("{error}"),
            }
            while let Received::Packet(packet) = subscriber.try_receive().unwrap() {
                *last = packet[0];
            }
        }
        if last[0] == last[1] && last[0] != met {
            met = last[0];
            say(format!("met {met}"));
        }
        std::thread::sleep(PAUSE);
    }
}

/// Returns a flag that is set at the end of the standard input.
fn end_of_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    std::thread::spawn(move || {
        let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
        // Relaxed: it is only a flag, and the other thread needs no data from this one.
        flag.store(true, Ordering::Relaxed);
    });
    ended
}

/// Joins a domain and opens a port. Prints whether this worked, and waits for the end of the input.
pub fn join(words: &[&str]) {
    let opened = Node::join(words[0], Topics::default())
        .and_then(|node| node.publisher::<u8>("topic").map(|publisher| (node, publisher)));
    say(match &opened {
        Ok(_) => "joined".into(),
        Err(error) => format!("refused: {error}"),
    });
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
}

/// Starts a process that joins a separate domain in that folder, and returns the answer.
fn answer(domain: &str, folder: &OsStr, wrapper: &[&str]) -> String {
    let cast = Cast { words: &[domain], folder: Some(folder), wrapper, ..Cast::default() };
    let mut actor = Actor::start("join", &cast);
    let answer = actor.hear();
    actor.end();
    answer
}

#[test]
fn an_unfit_folder_is_refused_with_the_variable_and_the_remedy() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    std::fs::write(path("file"), "").unwrap();
    std::fs::create_dir(path("open")).unwrap();
    std::fs::set_permissions(path("open"), PermissionsExt::from_mode(0o777)).unwrap();
    let not_utf8 = OsStr::from_bytes(b"/tmp/\xff");
    for (folder, words) in [
        (OsStr::new(""), "it is empty; name a folder"),
        (OsStr::new("here"), "does not begin with `/`"),
        (not_utf8, "is not UTF-8"),
        (path("file").as_os_str(), "is not a folder; name one"),
        (path("open").as_os_str(), "`chmod o-w` this one"),
        (path("missing/below").as_os_str(), "mkdir -p"),
    ] {
        let answer = answer("unfit", folder, &[]);
        assert!(answer.starts_with("refused: STRIPLINE_RUNTIME_DIR: "), "{answer}");
        assert!(answer.contains(words), "{answer}");
    }
    // A missing folder is made for this user alone.
    assert_eq!(answer("made", path("made").as_os_str(), &[]), "joined");
    assert_eq!(std::fs::metadata(path("made")).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn a_group_shares_a_folder_of_root() {
    if !is_root() {
        println!("NOT RUN: a folder of a group, which needs root");
        return;
    }
    let (group, gid) = a_group(|gid| gid != 0 && gid != NO_CALL).expect("some group");
    let place = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(place.path(), Some(0), Some(gid)).unwrap();
    std::fs::set_permissions(place.path(), PermissionsExt::from_mode(0o2770)).unwrap();
    let domain = format!("places-group-{}", std::process::id());
    let folder = Some(place.path().as_os_str());
    let words = [&*domain, &*group];
    let member = |user| Cast {
        words: &words,
        user: Some((user, std::slice::from_ref(&gid))),
        folder,
        ..Cast::default()
    };
    // Tried in both directions, because the process that joins first hosts the rendezvous.
    for (first, second) in [(0, NO_CALL), (NO_CALL, 0)] {
        let mut publisher = Actor::start("publish", &member(first));
        assert_eq!(publisher.hear(), "ready");
        let mut subscriber = Actor::start("subscribe", &member(second));
        assert_eq!(subscriber.hear(), "ready");
        publisher.go_on();
        assert!(subscriber.hear().starts_with("took all"));
        subscriber.kill();
        publisher.kill();
    }
    // A user outside the group cannot join, and gets the reason.
    let cast = Cast { words: &words, user: Some((NO_CALL, &[])), folder, ..Cast::default() };
    let mut stranger = Actor::start("join", &cast);
    let answer = stranger.hear();
    assert!(answer.contains("STRIPLINE_RUNTIME_DIR") && answer.contains("Permission denied"), "{answer}");
    stranger.end();
}

#[test]
fn a_full_or_read_only_folder_is_refused_by_name() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    for (options, words) in [("nr_inodes=1", "No space left on device"), ("ro", "Read-only file system")] {
        // The file system ends with the process.
        let mount = format!("mount -t tmpfs -o {options},mode=700 none {folder} && exec \"$0\" \"$@\"");
        let wrapper = ["unshare", "--mount", "sh", "-c", &mount];
        let permitted = Command::new(wrapper[0])
            .args(&wrapper[1..])
            .arg("true")
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !permitted {
            println!("NOT RUN: a folder with {options}. This machine permits no mount");
            continue;
        }
        let answer = answer("full", place.path().as_os_str(), &wrapper);
        assert!(
            answer.contains("STRIPLINE_RUNTIME_DIR") && answer.contains("must be able to write"),
            "{answer}"
        );
        assert!(answer.contains(words), "{answer}");
    }
}

#[test]
fn what_others_left_under_the_name_is_debris_or_refused() {
    let place = tempfile::tempdir().unwrap();
    let name = |domain: &str| {
        place.path().join(format!("stripline-{}-{domain}", rustix::process::geteuid().as_raw()))
    };
    std::fs::write(name("file"), "kept").unwrap();
    symlink("/dev/null", name("link")).unwrap();
    std::fs::create_dir(name("folder")).unwrap();
    for domain in ["file", "link", "folder"] {
        let answer = answer(domain, place.path().as_os_str(), &[]);
        let words = format!("`{}` is not a socket", name(domain).display());
        assert!(answer.contains(&words) && answer.contains("remove it"), "{answer}");
    }
    assert_eq!(std::fs::read_to_string(name("file")).unwrap(), "kept");
    // The socket of a program that died is replaced.
    drop(UnixListener::bind(name("dead")).unwrap());
    drop(UnixListener::bind(place.path().join("stripline-0123456789abcdef")).unwrap());
    // The socket of another running program stays.
    let other = UnixListener::bind(name("other")).unwrap();
    assert_eq!(answer("dead", place.path().as_os_str(), &[]), "joined");
    assert_eq!(debris(place.path()).len(), 3, "the file, the symbolic link and the folder");
    assert!(name("other").exists());
    drop(other);
}
