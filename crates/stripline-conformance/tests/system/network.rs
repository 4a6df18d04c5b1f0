//! Links over addresses outside the loopback range. A process in a separate network namespace gives
//! the loopback interface such an address, and starts a receiver there.

use std::net::Ipv4Addr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, socket};
use stripline::node::{Node, Topics};

use crate::child::{Actor, Cast, say};

const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 1, 2, 3);
const PACKETS: u64 = 2000;
const DEADLINE: Duration = Duration::from_secs(30);

/// Returns the command that gives a process a separate network, with the right to set it up. Empty
/// if the machine does not permit it.
fn own_network() -> &'static [&'static str] {
    let ways: [&[&str]; 2] =
        [&["unshare", "--net", "--"], &["unshare", "--user", "--map-root-user", "--net", "--"]];
    let works = |way: &&[&str]| {
        let mut command = Command::new(way[0]);
        command.args(&way[1..]).arg("true").stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    ways.into_iter().find(works).unwrap_or_default()
}

/// Gives the loopback interface of this network another address, and sets it up.
fn raise() {
    let control: OwnedFd = socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
    let name = |name: &[u8]| {
        let mut bytes = [0; libc::IFNAMSIZ];
        name.iter().zip(&mut bytes).for_each(|(byte, place)| *place = *byte as libc::c_char);
        bytes
    };
    let flags = libc::__c_anonymous_ifr_ifru { ifru_flags: libc::IFF_UP as libc::c_short };
    // SAFETY: all-zero bytes are a valid address of any family.
    let mut address: libc::sockaddr_in = unsafe { std::mem::zeroed() };
    address.sin_family = libc::AF_INET as libc::sa_family_t;
    address.sin_addr.s_addr = u32::from_ne_bytes(ADDRESS.octets());
    // SAFETY: both types are plain numbers, and the source is no larger than the target.
    let address: libc::sockaddr = unsafe { std::mem::transmute(address) };
    let address = libc::__c_anonymous_ifr_ifru { ifru_addr: address };
    for (request, name, of) in
        [(libc::SIOCSIFFLAGS, name(b"lo"), flags), (libc::SIOCSIFADDR, name(b"lo:1"), address)]
    {
        let mut request_of = libc::ifreq { ifr_name: name, ifr_ifru: of };
        // SAFETY: the descriptor is open, and the structure lives across the call.
        let answer = unsafe { libc::ioctl(control.as_raw_fd(), request as _, &mut request_of) };
        assert_eq!(answer, 0, "{}", std::io::Error::last_os_error());
    }
}

#[test]
fn links_leave_the_host_with_insecure_only() {
    let way = own_network();
    if way.is_empty() {
        println!("NOT RUN: addresses beyond the loopback interface. This machine permits no network");
        return;
    }
    for transport in ["tcp", "udp"] {
        let domain = format!("network-{transport}-{}", std::process::id());
        let words = [&*domain, transport];
        let mut home = Actor::start("network-home", &Cast { words: &words, wrapper: way, ..Cast::default() });
        assert_eq!(home.hear(), format!("offered at {ADDRESS}"));
        assert_eq!(home.hear(), format!("the careful one is refused: {transport}"));
        assert_eq!(home.hear(), format!("arrived: {PACKETS}"));
        home.end();
    }
}

/// Publishes on the address, and starts receivers with and without `insecure`.
pub fn home(words: &[&str]) {
    let [domain, transport] = words else { panic!("{words:?}") };
    raise();
    let rules = format!(
        "[topic.numbers]\ntransport = '{transport}'\n[topic.numbers.{transport}]\ninsecure = true\n\
         bind = '{ADDRESS}'"
    );
    let node = Node::join(domain, Topics::parse(&rules).unwrap()).unwrap();
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    say(format!("offered at {ADDRESS}"));
    let mut careful =
        Actor::start("network-away", &Cast { words: &[domain, transport, "false"], ..Cast::default() });
    let words = careful.hear_of("insecure = true");
    assert!(words.contains(&ADDRESS.to_string()) && words.contains(transport), "{words}");
    say(format!("the careful one is refused: {transport}"));
    careful.kill();
    let mut away =
        Actor::start("network-away", &Cast { words: &[domain, transport, "true"], ..Cast::default() });
    publisher.wait_for_receivers(1, DEADLINE).unwrap();
    for number in 0..PACKETS {
        publisher.send(&[number; 100]).unwrap();
    }
    drop(publisher);
    say(away.hear());
    away.end();
}

/// Receives the published packets over the same address.
pub fn away(words: &[&str]) {
    let [domain, transport, insecure] = words else { panic!("{words:?}") };
    let rules = format!(
        "[topic.numbers]\ntransport = '{transport}'\nrefusal-is-error = true\n\
         [topic.numbers.{transport}]\ninsecure = {insecure}"
    );
    let node = Node::join(domain, Topics::parse(&rules).unwrap()).unwrap();
    let mut subscriber = node.subscriber::<u64>("numbers").unwrap();
    let mut next = 0;
    while let Some(packet) = subscriber.receive().unwrap() {
        assert_eq!((packet[0], packet.len(), packet.gap().is_none()), (next, 100, true));
        next += 1;
    }
    say(format!("arrived: {next}"));
}
