//! The output of `stripline components`: the specification of a component as plain text.

use std::fmt::Write;

use stripline::component::{
    Access, ComponentSpec, Direction, PortSpec, PropertyKind, PropertySpec, StreamShape, TestSpec, Value,
};
use unicode_width::UnicodeWidthStr;

use super::text::wrapped;

/// Formats one component as aligned plain text: the ports, the properties, and an example for a
/// waveform file. If the width is too small for a list, each row of the list becomes a block.
///
/// ```
/// use stripline::component::{ComponentSpec, PortTypes, PropertySpec};
/// use stripline_waveform::internal::render_component;
///
/// let spec = ComponentSpec::new("gain", "Multiplies every sample by a factor.")
///     .input("in", PortTypes::of::<f32>(), "samples")
///     .property(PropertySpec::float("factor", 1.0, "linear gain"));
/// let text = render_component(&spec, None);
/// assert!(text.contains("in  input  f32  mandatory, one writer  samples"));
/// assert!(text.contains("# factor = 1.0"));
/// ```
pub fn render_component(spec: &ComponentSpec, width: Option<usize>) -> String {
    let mut text = wrapped(&format!("{}: {}\n", spec.name, spec.summary), width, 2);
    text.push_str("\nPorts\n");
    if spec.ports.is_empty() {
        text.push_str("  none\n");
    }
    text.push_str(&aligned(spec.ports.iter().map(port_row), width));
    text.push_str("\nProperties\n");
    if spec.properties.is_empty() {
        text.push_str("  none\n");
    }
    text.push_str(&aligned(spec.properties.iter().map(property_row), width));
    if spec.any_dispatch {
        text.push_str("\nDispatch\n  any: queue, direct, pool(N), pool(N, resequence)\n");
    }
    if !spec.tests.is_empty() {
        text.push_str("\nSelf-tests\n");
        let row = |test: &TestSpec| [test.name.clone(), test.summary.clone()];
        text.push_str(&aligned(spec.tests.iter().map(row), width));
    }
    text.push_str("\nIn a waveform file\n");
    for line in example(spec).lines() {
        // Writing to a `String` cannot fail.
        let _ = writeln!(text, "{}", format!("  {line}").trim_end());
    }
    text
}

/// Formats one line for each component: the name, the types of the inputs and outputs, and the
/// summary. If the width is too small for the lines, each component becomes a block.
///
/// ```
/// use stripline::component::{ComponentSpec, PortTypes};
/// use stripline_waveform::internal::render_component_list;
///
/// let spec = ComponentSpec::new("tee", "Copies.").input("in", PortTypes::Any, "").output("out", PortTypes::Any, "");
/// assert_eq!(render_component_list([&spec], None), "tee  in: any -> out: any  Copies.\n");
/// assert!(render_component_list([&spec], Some(1)).contains("Copies."));
/// ```
pub fn render_component_list<'a>(
    specs: impl IntoIterator<Item = &'a ComponentSpec>,
    width: Option<usize>,
) -> String {
    let row = |spec: &ComponentSpec| {
        let ports = |direction| {
            let ports = spec.ports.iter().filter(|port| port.direction == direction);
            let texts: Vec<String> = ports.map(|port| format!("{}: {}", port.name, port.types)).collect();
            texts.join(", ")
        };
        let (inputs, outputs) = (ports(Direction::Input), ports(Direction::Output));
        let flow = match (inputs.as_str(), outputs.as_str()) {
            ("", "") => "no ports".into(),
            ("", outputs) => format!("-> {outputs}"),
            (inputs, "") => format!("{inputs} ->"),
            (inputs, outputs) => format!("{inputs} -> {outputs}"),
        };
        [spec.name.clone(), flow, spec.summary.clone()]
    };
    let indented = aligned(specs.into_iter().map(row), width.map(|width| width + 2));
    // At the smallest widths, a line may be empty.
    indented.lines().map(|line| format!("{}\n", line.strip_prefix("  ").unwrap_or(line))).collect()
}

fn port_row(port: &PortSpec) -> [String; 5] {
    let (direction, writers) = match (port.direction, port.many_writers) {
        (Direction::Output, _) => ("output", ""),
        (Direction::Input, true) => ("input", ", many writers"),
        (Direction::Input, false) => ("input", ", one writer"),
    };
    let shape = match port.shape {
        None => "",
        Some(StreamShape::Signal) => ", no rows",
        Some(StreamShape::Rows) => ", rows",
        Some(StreamShape::Frames) => ", frames of rows",
    };
    let mandatory = if port.mandatory { "mandatory" } else { "optional" };
    [
        port.name.clone(),
        direction.into(),
        port.types.to_string(),
        format!("{mandatory}{writers}{shape}"),
        port.summary.clone(),
    ]
}

fn property_row(property: &PropertySpec) -> [String; 6] {
    let default = match &property.default {
        _ if property.access == Access::ReadOnly => String::new(),
        None => "must be set".into(),
        Some(Value::Text(text)) if text.is_empty() => "default none".into(),
        Some(value) => format!("default {}", value_text(value)),
    };
    let mut allowed = property.kind.range_text();
    if !property.unit.is_empty() {
        allowed = format!("{allowed} {}", property.unit).trim_start().into();
    }
    let access = match property.access {
        Access::Fixed => "",
        Access::Changeable => "any time",
        Access::ReadOnly => "read-only",
    };
    let (name, kind) = (property.name.clone(), kind_word(&property.kind).into());
    [name, kind, default, allowed, access.into(), property.summary.clone()]
}

/// Formats rows as lines indented by two. Each column is as wide as the longest text in it. If the
/// lines would be too wide, each row becomes a block with the last text below the others.
fn aligned<const N: usize>(rows: impl Iterator<Item = [String; N]>, width: Option<usize>) -> String {
    let rows: Vec<[String; N]> = rows.collect();
    let widest = |column: usize| rows.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(widest);
    let needed: usize = widths.iter().filter(|width| **width > 0).map(|width| width + 2).sum();
    let mut text = String::new();
    for row in &rows {
        if width.is_some_and(|width| needed > width) {
            let cells: Vec<&str> = row.iter().map(String::as_str).filter(|cell| !cell.is_empty()).collect();
            let (last, first) = cells.split_last().unwrap_or((&"", &[]));
            for (line, indent) in [(format!("  {}", first.join("  ")), 4), (format!("      {last}"), 8)] {
                text += &wrapped(&line, width, indent);
                text.push('\n');
            }
            continue;
        }
        let mut line = String::new();
        for (cell, width) in row.iter().zip(widths).filter(|(_, width)| *width > 0) {
            let _ = write!(line, "  {cell}{:space$}", "", space = width - cell.width());
        }
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// Formats a table for users to copy: required properties are lines to fill in, and the others are
/// comments.
fn example(spec: &ComponentSpec) -> String {
    let mut text = format!("[component.{}]\ntype = \"{}\"\n", spec.name, spec.name);
    let mut settable = spec.properties.iter().filter(|p| p.access != Access::ReadOnly).peekable();
    if settable.peek().is_some() {
        let _ = writeln!(text, "\n[component.{}.properties]", spec.name);
    }
    for property in settable {
        let comment = if property.default.is_some() { "# " } else { "" };
        let _ = writeln!(text, "{comment}{} = {}", property.name, example_value(property));
    }
    text
}

/// Returns a value that a waveform file could give to a property, in TOML: the example, the
/// default, or an allowed value.
pub(super) fn example_value(property: &PropertySpec) -> String {
    let value = match (property.example.as_ref().or(property.default.as_ref()), &property.kind) {
        (Some(value), _) => value.clone(),
        (None, PropertyKind::Boolean) => Value::Boolean(false),
        (None, PropertyKind::Integer { min, max }) => Value::Integer(0.clamp(*min, *max.max(min))),
        (None, PropertyKind::Float { min, max }) => Value::Float(0f64.max(*min).min(*max)),
        (None, PropertyKind::Text) => Value::Text("text".into()),
        (None, PropertyKind::Choice { choices }) => Value::Text(choices.first().cloned().unwrap_or_default()),
        (None, PropertyKind::Path) => Value::Text("file".into()),
    };
    value_text(&value)
}

/// Formats a value in TOML.
fn value_text(value: &Value) -> String {
    match value {
        Value::Boolean(value) => value.to_string(),
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(text) => toml::Value::String(text.clone()).to_string(),
    }
}

fn kind_word(kind: &PropertyKind) -> &'static str {
    match kind {
        PropertyKind::Boolean => "boolean",
        PropertyKind::Integer { .. } => "integer",
        PropertyKind::Float { .. } => "number",
        PropertyKind::Text => "text",
        PropertyKind::Choice { .. } => "choice",
        PropertyKind::Path => "path",
    }
}
