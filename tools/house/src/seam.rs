//! The transport seam: the traits `Outlet` and `Inlet`, which every transport implements, stay
//! small.

use crate::tree;

const SEAM: &str = "crates/stripline/src/transport/seam.rs";

#[test]
fn the_traits_of_a_transport_stay_small() {
    let seam = tree::read(SEAM);
    for (name, methods_max) in [("Outlet", 12), ("Inlet", 10)] {
        let methods = methods_of(&seam, name);
        assert!(
            methods.len() <= methods_max,
            "{SEAM}: `{name}` has {} methods, at most {methods_max} are allowed; a constant belongs into its \
             record: {methods:?}",
            methods.len()
        );
    }
}

#[test]
fn methods_are_counted() {
    let text =
        "pub trait A: Send {\n    fn a();\n    fn b<'x>() {\n        fn no() {}\n    }\n}\nfn no() {}\n";
    assert_eq!(methods_of(text, "A"), ["a", "b"]);
}

/// Returns the names of a trait's methods.
fn methods_of(text: &str, name: &str) -> Vec<String> {
    let lines = text.lines().skip_while(|line| !line.contains(&format!("trait {name}:")));
    let inside = lines.take_while(|line| *line != "}");
    let methods = inside.filter_map(|line| line.strip_prefix("    fn "));
    let names: Vec<String> =
        methods.map(|rest| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()).collect();
    assert!(!names.is_empty(), "{SEAM} has no trait `{name}`");
    names
}
