//! Checks of the pages in `docs/transports` against the transports of every build.

#![allow(clippy::unwrap_used, reason = "a panic is the failure of the test")]

#[path = "common/middleware.rs"]
mod middleware;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use stripline::transport;

/// The parts of a transport's page, in this order.
const PARTS: [&str; 7] = [
    "What for",
    "Options",
    "What it keeps",
    "What to expect",
    "How it works",
    "What a packet costs",
    "From other programs",
];

/// Transports that only some builds have. Each has a page in every build.
const OF_FEATURES: [&str; 5] = ["zeromq", "iceoryx2", "zenoh", "dds", "corba"];
/// Transports that serve tests have no page.
const FOR_TESTS: [&str; 5] = ["pipe", "faulty", "lossy", "multicast", "callback"];

/// Compares the pages with the transports of this build. `tests/packet_cost` compares the cost of a
/// packet.
#[test]
fn each_transport_has_a_page_and_each_page_a_transport() {
    let transports: Vec<_> = transport::all().filter(|it| !FOR_TESTS.contains(&it.name)).collect();
    let names = transports.iter().map(|it| it.name).chain(OF_FEATURES).chain([transport::AUTO]);
    let expected: BTreeSet<String> = names.map(String::from).collect();
    let entries = std::fs::read_dir(docs("transports")).unwrap().map(|entry| entry.unwrap().file_name());
    let pages = entries.map(|name| name.into_string().unwrap().trim_end_matches(".md").to_string());
    assert_eq!(expected, pages.collect(), "left: transports; right: docs/transports");
    let index = read("README.md");
    for name in &expected {
        assert!(index.contains(&format!("[{name}](transports/{name}.md)")), "docs/README.md: {name}");
        assert!(page(name).starts_with(&format!("# `{name}`: ")), "the title of {name}");
    }
    for transport in transports {
        let name = transport.name;
        let page = page(name);
        let parts = page.lines().filter_map(|line| line.strip_prefix("**")?.split_once(".**"));
        assert_eq!(parts.map(|(part, _)| part).collect::<Vec<_>>(), PARTS, "the parts of {name}");
        let refused: Vec<String> = transport.refused().iter().map(|option| format!("`{option}`")).collect();
        let refused = if refused.is_empty() { "none".into() } else { refused.join(", ") };
        let words = page.split_whitespace().collect::<Vec<_>>().join(" ");
        let line = format!("Refused options: {refused}.");
        assert!(words.contains(&line), "docs/transports/{name}.md has no `{line}`");
    }
}

fn docs(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(docs(path)).unwrap()
}

fn page(transport: &str) -> String {
    read(&format!("transports/{transport}.md"))
}
