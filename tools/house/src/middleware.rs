//! Other middleware: only `stripline-middleware` has features of a middleware, depends on the
//! libraries, and has conditions on the features. Other crates ask at run time.

use crate::tree;

/// The features of `stripline-middleware`.
const FEATURES: [&str; 6] = ["zeromq", "iceoryx2", "zenoh", "dds", "corba", "middleware"];
/// The libraries behind the features, without those that have the name of the feature.
const LIBRARIES: [&str; 4] = ["zmq", "zmq-sys", "stripline-dds-sys", "stripline-corba-sys"];
/// The places that have features of a middleware, and the reasons.
const PLACES: [(&str, &str); 4] = [
    ("crates/stripline-middleware/", "the crate of all middleware"),
    ("crates/stripline-cli/Cargo.toml", "users build the command as `cargo build --features zenoh`"),
    ("crates/stripline-bench/", "the bare libraries are measured beside the transports"),
    ("Cargo.toml", "one version of each library"),
];

#[test]
fn only_the_middleware_crate_has_features_of_a_middleware() {
    let found: Vec<(String, String)> = [".rs", "Cargo.toml"]
        .into_iter()
        .flat_map(tree::files)
        .flat_map(|file| uses(&file, &tree::read(&file)).into_iter().map(move |line| (file.clone(), line)))
        .collect();
    let is_in = |file: &str, place: &str| file == place || place.ends_with('/') && file.starts_with(place);
    let refused: Vec<_> =
        found.iter().filter(|(file, _)| !PLACES.iter().any(|(place, _)| is_in(file, place))).collect();
    assert!(
        refused.is_empty(),
        "move these to crates/stripline-middleware, or ask at run time (`transport::all`, `wire_formats`): {refused:#?}"
    );
    for (place, reason) in PLACES {
        assert!(
            found.iter().any(|(file, _)| is_in(file, place)),
            "{place} is listed ({reason}), and has no such feature"
        );
    }
}

#[test]
fn features_and_libraries_are_found() {
    let manifest = "[features]\nzenoh = []\nall = [\"stripline-middleware/dds\"]\n[dependencies]\nzmq.workspace = true\n\
                    stripline-middleware.workspace = true\n# zenoh = no\n";
    let lines = ["zenoh = []", "all = [\"stripline-middleware/dds\"]", "zmq.workspace = true"];
    assert_eq!(uses("a/Cargo.toml", manifest), lines);
    let condition = format!("#[cfg(feature = \"{}\")]", FEATURES[0]);
    assert_eq!(uses("a.rs", &format!("{condition}\nfn zenoh() {{}}\n")), [condition]);
}

/// Returns the lines of a file that name a feature of a middleware, or a library.
fn uses(path: &str, text: &str) -> Vec<String> {
    let is_use = |line: &&str| match path.ends_with(".rs") {
        true => FEATURES.iter().any(|name| line.contains(&format!("feature = \"{name}\""))),
        false => {
            let key = line.split([' ', '=', '.']).next().unwrap_or_default();
            FEATURES.iter().chain(&LIBRARIES).any(|name| *name == key)
                || FEATURES.iter().any(|name| line.contains(&format!("stripline-middleware/{name}")))
        }
    };
    text.lines().filter(is_use).map(String::from).collect()
}
