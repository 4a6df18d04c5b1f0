//! The check of a component's specification. A specification from an executable of the user is
//! untrusted.

use std::collections::BTreeSet;

use stripline::component::{
    Access, ComponentSpec, Direction, PortSpec, PortTypes, PropertyKind, PropertySpec,
};

use super::file::is_name;
use super::text::quoted;

/// The maximum number of ports, and of properties, of one component.
const MEMBERS_MAX: usize = 256;
/// The maximum number of payload types of a port, and of words of a choice.
const CHOICES_MAX: usize = 256;
/// The maximum length of a summary in bytes.
const SUMMARY_BYTES_MAX: usize = 1000;
/// The maximum length of a unit in bytes.
const UNIT_BYTES_MAX: usize = 32;

/// Checks the specification of a component: names, duplicates, ranges, and references between ports
/// and properties. Returns one sentence for each fault.
///
/// ```
/// use stripline::component::{ComponentSpec, PortTypes};
/// use stripline_waveform::internal::check_spec;
///
/// let spec = ComponentSpec::new("tee", "Copies.").input("in", PortTypes::Any, "").input("in", PortTypes::Any, "");
/// assert_eq!(check_spec(&spec), ["two ports are named `in`"]);
/// ```
pub fn check_spec(spec: &ComponentSpec) -> Vec<String> {
    let mut faults = Vec::new();
    check_name("the component", &spec.name, &mut faults);
    check_line("the component's summary", &spec.summary, SUMMARY_BYTES_MAX, &mut faults);
    check_members("ports", spec.ports.iter().map(|p| p.name.as_str()), &mut faults);
    check_members("properties", spec.properties.iter().map(|p| p.name.as_str()), &mut faults);
    check_members("self-tests", spec.tests.iter().map(|test| test.name.as_str()), &mut faults);
    // A specification that is too long is not checked further, because the check could take long.
    let lengths = [spec.ports.len(), spec.properties.len(), spec.tests.len()];
    if lengths.iter().all(|length| *length <= MEMBERS_MAX) {
        for port in &spec.ports {
            check_port(spec, port, &mut faults);
        }
        for property in &spec.properties {
            check_property(property, &mut faults);
        }
        for test in &spec.tests {
            check_name("a self-test", &test.name, &mut faults);
            let what = format!("the summary of self-test {}", quoted(&test.name));
            check_line(&what, &test.summary, SUMMARY_BYTES_MAX, &mut faults);
        }
    }
    faults
}

fn check_name(whose: &str, name: &str, faults: &mut Vec<String>) {
    if !is_name(name) {
        faults.push(format!("{whose} is named {}: use 1 to 64 letters, digits, `-` and `_`", quoted(name)));
    }
}

fn check_line(what: &str, line: &str, bytes_max: usize, faults: &mut Vec<String>) {
    if line.len() > bytes_max || line.chars().any(char::is_control) {
        faults.push(format!("{what} is not one line of at most {bytes_max} bytes"));
    }
}

fn check_members<'a>(what: &str, names: impl ExactSizeIterator<Item = &'a str>, faults: &mut Vec<String>) {
    if names.len() > MEMBERS_MAX {
        faults.push(format!("it has {} {what}; the limit is {MEMBERS_MAX}", names.len()));
    }
    let mut seen = BTreeSet::new();
    for name in names.take(MEMBERS_MAX) {
        if !seen.insert(name) {
            faults.push(format!("two {what} are named {}", quoted(name)));
        }
    }
}

fn check_port(spec: &ComponentSpec, port: &PortSpec, faults: &mut Vec<String>) {
    let name = quoted(&port.name);
    check_name("a port", &port.name, faults);
    check_line(&format!("the summary of port {name}"), &port.summary, SUMMARY_BYTES_MAX, faults);
    if port.many_writers && port.direction == Direction::Output {
        faults.push(format!("port {name} is an output, which has no writers"));
    }
    if port.shape.is_some() && port.direction == Direction::Output {
        faults.push(format!("port {name} is an output, which takes no shape"));
    }
    match &port.types {
        PortTypes::Any => {}
        PortTypes::OneOf(types) if types.is_empty() => faults.push(format!("port {name} lists no type")),
        PortTypes::OneOf(types) if types.len() > CHOICES_MAX => {
            faults.push(format!("port {name} lists more than {CHOICES_MAX} types"));
        }
        PortTypes::OneOf(_) => {}
        PortTypes::SameAs(other) => match spec.find_port(other) {
            Some(input) if input.direction == Direction::Input && !leads_back(spec, port) => {}
            _ => {
                faults.push(format!("port {name} has its type from {}, which is not an input", quoted(other)))
            }
        },
        PortTypes::Property(property) => match spec.find_property(property).map(|p| &p.kind) {
            Some(PropertyKind::Choice { .. } | PropertyKind::Text) => {}
            _ => faults.push(format!(
                "port {name} has its type from the property {}, which is neither a choice nor a text",
                quoted(property)
            )),
        },
    }
}

/// Returns whether the chain of `SameAs` from a port never ends.
fn leads_back(spec: &ComponentSpec, port: &PortSpec) -> bool {
    let mut at = port;
    for _ in 0..=spec.ports.len() {
        let PortTypes::SameAs(next) = &at.types else { return false };
        match spec.find_port(next) {
            Some(next) => at = next,
            None => return false,
        }
    }
    true
}

fn check_property(property: &PropertySpec, faults: &mut Vec<String>) {
    let name = quoted(&property.name);
    check_name("a property", &property.name, faults);
    check_line(&format!("the summary of property {name}"), &property.summary, SUMMARY_BYTES_MAX, faults);
    check_line(&format!("the unit of property {name}"), &property.unit, UNIT_BYTES_MAX, faults);
    let empty = match &property.kind {
        PropertyKind::Integer { min, max } => min > max,
        // `min > max` would let NaN pass.
        PropertyKind::Float { min, max } => !matches!(min.partial_cmp(max), Some(order) if order.is_le()),
        PropertyKind::Choice { choices } => {
            if choices.len() > CHOICES_MAX {
                faults.push(format!("property {name} lists more than {CHOICES_MAX} words"));
            }
            for choice in choices.iter().take(CHOICES_MAX) {
                check_line(&format!("a word of property {name}"), choice, SUMMARY_BYTES_MAX, faults);
            }
            choices.is_empty()
        }
        PropertyKind::Boolean | PropertyKind::Text | PropertyKind::Path => false,
    };
    if property.access == Access::ReadOnly && property.default.is_none() {
        faults.push(format!("property {name} is read-only and must be set, which it cannot be"));
    }
    if empty {
        faults.push(format!("property {name} allows no value"));
    } else if let Some(Err(error)) = property.default.as_ref().map(|value| property.check(value)) {
        faults.push(format!("the default does not fit: {error}"));
    } else if let Some(Err(error)) = property.example.as_ref().map(|value| property.check(value)) {
        faults.push(format!("the example does not fit: {error}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(spec: &ComponentSpec) -> String {
        check_spec(spec).join("\n")
    }

    #[test]
    fn references_must_lead_somewhere() {
        let same = |name: &str| PortTypes::SameAs(name.into());
        let spec = ComponentSpec::new("x", "")
            .input("a", same("b"), "")
            .input("b", same("a"), "")
            .output("c", same("d"), "")
            .output("d", PortTypes::Property("rate".into()), "")
            .property(PropertySpec::float("rate", 1.0, ""));
        assert_eq!(check_spec(&spec).len(), 4, "{}", faults(&spec));
    }

    #[test]
    fn read_only_properties_need_a_default_and_tests_a_name() {
        let spec = ComponentSpec::new("x", "")
            .property(PropertySpec::text("state", "", "").read_only().required())
            .test("a test", "")
            .test("twice", "")
            .test("twice", "two\nlines");
        let faults = faults(&spec);
        for words in
            ["`state` is read-only", "named `a test`", "two self-tests are named", "of self-test `twice`"]
        {
            assert!(faults.contains(words), "{words}: {faults}");
        }
        assert_eq!(check_spec(&spec).len(), 4, "{faults}");
    }

    #[test]
    fn defaults_must_fit_and_ranges_have_values() {
        let spec = ComponentSpec::new("x", "")
            .property(PropertySpec::float("a", 2.0, "").range(0.0, 1.0))
            .property(PropertySpec::float("b", 2.0, "").range(f64::NAN, 1.0))
            .property(PropertySpec::integer("c", 2, 3, 1, ""))
            .property(PropertySpec::choice("d", &[], "", ""));
        assert_eq!(check_spec(&spec).len(), 4, "{}", faults(&spec));
    }

    #[test]
    fn texts_for_people_are_single_lines() {
        let spec =
            ComponentSpec::new("x y", "\u{1b}[2J").property(PropertySpec::boolean("n\n", true, "a\nb"));
        assert_eq!(check_spec(&spec).len(), 4, "{}", faults(&spec));
    }
}
