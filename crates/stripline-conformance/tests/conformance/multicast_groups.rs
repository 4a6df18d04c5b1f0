//! Groups of `udp`, named in a topics file. The rules themselves run over the transport
//! `multicast`.

use stripline::node::{Node, Topics};

use stripline_conformance::puppet::{Puppet, SAMPLES};
use stripline_conformance::support::{
    await_receivers, domain, expect_end, expect_nothing, join, pair, take_number,
};

/// Returns the rules for a group that no other test of this process uses.
fn rules(test: u8) -> String {
    let [.., high, low] = std::process::id().to_be_bytes();
    format!(
        "[default.udp]\ngroup = \"239.254.{high}.{low}:{}\"\ninterface = \"lo\"",
        20_000 + u16::from(test)
    )
}

#[test]
fn one_group_serves_receivers_of_several_processes() {
    let (domain, rules) = (domain(), rules(1));
    let node = join(&domain, "udp", &rules);
    let mut publisher = node.publisher::<u64>("numbers").unwrap();
    let mut here = node.subscriber::<u64>("numbers").unwrap();
    let mut others = [(); 2].map(|()| Puppet::start(&domain, "udp", &rules));
    others.iter_mut().for_each(|other| assert_eq!(other.order("subscribe numbers"), "ok"));
    await_receivers(&mut publisher, 3);
    for number in 0..300 {
        publisher.send(&[number; SAMPLES]).unwrap();
        take_number(&mut here, number);
        // Five packets fit into the window.
        if number % 5 == 4 {
            others.iter_mut().for_each(|other| assert_eq!(other.take(5), (number - 4, None)));
        }
    }
    // A receiver that connects later begins with the next packet, and also names the group itself.
    let mut late = Puppet::start(&domain, "udp", &rules);
    late.order("subscribe numbers");
    await_receivers(&mut publisher, 4);
    publisher.send(&[300; SAMPLES]).unwrap();
    assert_eq!(late.take(1), (300, None));
    assert_eq!(others[0].take(1), (300, None));
    take_number(&mut here, 300);
    publisher.finish().unwrap();
    expect_end(&mut here);
    assert_eq!(others[0].order("end"), "ok");
}

/// Checks that tokens separate the packets of several senders in one group.
#[test]
fn senders_in_one_group_do_not_mix() {
    let node = join(&domain(), "udp", &rules(2));
    let pairs = ["one", "two", "three"].map(|topic| pair::<u64>(&node, topic));
    let mut pairs = pairs;
    for number in 0..100 {
        for (index, (publisher, _)) in pairs.iter_mut().enumerate() {
            publisher.send(&[number * 10 + index as u64]).unwrap();
        }
        for (index, (_, subscriber)) in pairs.iter_mut().enumerate() {
            assert_eq!(take_number(subscriber, number).samples, [number * 10 + index as u64]);
            expect_nothing(subscriber);
        }
    }
}

#[test]
fn a_group_that_leaves_the_host_is_refused() {
    for (line, words) in [
        ("group = \"239.1.2.3:5000\"", "insecure"),
        ("group = \"239.1.2.3:5000\"\ninterface = \"eth0\"", "insecure"),
        ("group = \"10.1.2.3:5000\"\ninterface = \"lo\"", "must be a multicast address"),
    ] {
        let text = format!("[default]\ntransport = \"udp\"\n[default.udp]\n{line}\n");
        let error = Topics::parse(&text)
            .and_then(|topics| Node::join(&domain(), topics))
            .and_then(|node| node.publisher::<u64>("numbers").map(drop))
            .unwrap_err()
            .to_string();
        assert!(error.contains(words), "{error}");
    }
}
