//! Types without a layout between programs of the same build and of different builds.

use std::path::PathBuf;
use std::process::Command;

use stripline::node::Subscriber;
use stripline::payload::TypeName;
use stripline::terms::Overflow;

use crate::order::PlainDetection;
use crate::puppet::{Puppet, beside_another};
use crate::support::{await_senders, await_that, binary, expect_nothing, join, take};

const ALLOWANCE: &str = "types-without-layout = ['bare']";

pub fn a_type_without_a_layout_needs_one_build_or_an_allowance(transport: &'static str) {
    let Some((domain, node)) = beside_another(transport, "a sender in another process", "") else { return };
    // A copy of the program has the same build.
    let folder = tempfile::tempdir().unwrap();
    let copy = executable(&folder, "copy", "");
    let mut same = Puppet::start_from(binary(&copy), &domain, transport, "");
    same.order("publish-bare same");
    takes_one(&mut node.subscriber("same").unwrap(), &mut same, 1);

    // The same program with one more byte has a different build.
    let other = executable(&folder, "other", "x");
    let mut sender = Puppet::start_from(binary(&other), &domain, transport, "");
    sender.order("publish-bare detections");
    let mut refused = node.subscriber::<PlainDetection>("detections").unwrap();
    await_that("the refusal", || !node.refused_connections().is_empty());
    let [(_, reason)] = &node.refused_connections()[..] else { panic!("one is refused") };
    for words in
        ["type bare", "built differently", "derive stripline::Sample", "types-without-layout = [\"bare\"]"]
    {
        assert!(reason.contains(words), "{reason}");
    }

    // The receiver allows the type by name. A tap has no structure to compare.
    let allowing = join(&domain, transport, ALLOWANCE);
    let mut subscriber = allowing.subscriber("detections").unwrap();
    let name = TypeName::new("bare").unwrap();
    let mut tap =
        stripline::internal::tap::topic(&node, "detections", &name, 4, Overflow::DropOldest).unwrap();
    await_senders(&mut tap, 1);
    takes_one(&mut subscriber, &mut sender, 2);
    assert_eq!(take(&mut tap).samples.len(), size_of::<PlainDetection>());
    expect_nothing(&mut refused);

    // The sender allows the type by name.
    let mut sender = Puppet::start_from(binary(&other), &domain, transport, ALLOWANCE);
    sender.order("publish-bare allowed");
    takes_one(&mut node.subscriber("allowed").unwrap(), &mut sender, 1);
}

/// Checks that a packet arrives when the sender has `receivers` receivers.
#[track_caller]
fn takes_one(subscriber: &mut Subscriber<PlainDetection>, sender: &mut Puppet, receivers: usize) {
    await_senders(subscriber, 1);
    sender.order(&format!("send-bare {receivers}"));
    assert_eq!(take(subscriber).samples, [PlainDetection { range_bin: 7, level_db: 0.5 }]);
}

/// Makes an executable that is a copy of this one with `suffix` appended.
fn executable(folder: &tempfile::TempDir, name: &str, suffix: &str) -> PathBuf {
    let path = folder.path().join(name);
    // Another process writes the file, so that no process that another thread starts holds it open
    // for writing.
    let script = "cat \"$0\" > \"$1\" && printf %s \"$2\" >> \"$1\" && chmod 700 \"$1\"";
    let own = std::env::current_exe().unwrap();
    let status = Command::new("sh").args(["-c", script]).arg(own).arg(&path).arg(suffix).status().unwrap();
    assert!(status.success());
    path
}
