//! Ports, properties and self-tests of a component type.

use std::fmt::Display;

use stripline::component::{
    Access, ComponentSpec, Direction, PortSpec, PortTypes, PropertyKind as RustKind, PropertySpec,
    StreamShape, Value,
};
use stripline::payload::TypeName;

use crate::border::{ErrorOut, Handle, Ref, Str};
use crate::error::Failure;
use crate::sized;
use crate::status::Status;

use super::{Component, check_name};

/// The direction of packets through a port.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum PortDirection {
    /// The component receives.
    Input = 0,
    /// The component sends.
    Output = 1,
}

/// A port of a component type. Set at most one of `types`, `same_as` and `type_property`. If none
/// is set, the port takes any type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Port {
    /// `sizeof(stripline_port)`.
    pub size: usize,
    /// The name of the port: 1 to 64 letters, digits, `-` and `_`.
    pub name: Str,
    /// The direction of the packets: a `stripline_port_direction`.
    pub direction: u32,
    /// Not 0: a waveform may leave the port unconnected.
    pub optional: u32,
    /// Not 0: an input takes packets of any number of senders.
    pub many_writers: u32,
    /// The types that the port takes, with `|` between them: `cf32` or `cf32 | cs16`. Each is a
    /// built-in type, a layout, a name, or a message type such as `message/tune{hz:f64}`.
    pub types: Str,
    /// The input of this component that has the same type.
    pub same_as: Str,
    /// The text or choice property that contains the name of the type.
    pub type_property: Str,
    /// A line for users; may be NULL.
    pub summary: Str,
    /// The shape of the streams that an input takes: `signal`, `rows`, or `frames` of rows. NULL:
    /// any shape. A receive fails with `STRIPLINE_PORT` when a stream of another shape arrives.
    pub shape: Str,
}

sized::sized!(
    Port, "stripline_port",
    size: usize, name: Str, direction: u32, optional: u32, many_writers: u32,
    types: Str, same_as: Str, type_property: Str, summary: Str, shape: Str,
);

/// The kind of a property's values.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum PropertyKind {
    /// A finite real number. The members are `float_default`, and with `has_range` `float_min` and
    /// `float_max`.
    Float = 1,
    /// A whole number. The members are `integer_default`, and with `has_range` `integer_min` and
    /// `integer_max`.
    Integer = 2,
    /// A boolean. The member is `integer_default`: 0 is false, any other number is true.
    Boolean = 3,
    /// A text. The member is `text_default`.
    Text = 4,
    /// One of `choices`. The default is `text_default`, or the first choice if that is NULL.
    Choice = 5,
    /// A path, relative to the waveform file. By default it is empty, which names no file.
    Path = 6,
}

/// The writer of a property, and the time when it writes.
#[repr(u32)]
#[derive(Clone, Copy)]
pub enum PropertyAccess {
    /// The waveform sets it before the start.
    Fixed = 0,
    /// The waveform sets it, and users may change it while the component runs.
    Changeable = 1,
    /// Only the component sets it, while it runs (`stripline_ports_readout`).
    ReadOnly = 2,
}

/// A property of a component type.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Property {
    /// `sizeof(stripline_property)`.
    pub size: usize,
    /// The name of the property: 1 to 64 letters, digits, `-` and `_`.
    pub name: Str,
    /// The kind of the values: a `stripline_property_kind`.
    pub kind: u32,
    /// The writer of the property, and the time: a `stripline_property_access`.
    pub access: u32,
    /// Not 0: the waveform must set it, and the default is not used.
    pub required: u32,
    /// Not 0: the smallest and the largest number are set. Both are part of the range.
    pub has_range: u32,
    /// The default of a float.
    pub float_default: f64,
    /// The smallest float.
    pub float_min: f64,
    /// The largest float.
    pub float_max: f64,
    /// The default of an integer or a boolean.
    pub integer_default: i64,
    /// The smallest integer.
    pub integer_min: i64,
    /// The largest integer.
    pub integer_max: i64,
    /// The default of a text or a choice; NULL is the empty text.
    pub text_default: Str,
    /// The values of a choice, with `|` between them.
    pub choices: Str,
    /// The unit for users, such as `Hz`; may be NULL.
    pub unit: Str,
    /// A line for users; may be NULL.
    pub summary: Str,
}

sized::sized!(
    Property, "stripline_property",
    size: usize, name: Str, kind: u32, access: u32, required: u32, has_range: u32,
    float_default: f64, float_min: f64, float_max: f64, integer_default: i64, integer_min: i64,
    integer_max: i64, text_default: Str, choices: Str, unit: Str,
    summary: Str,
);

fn second(spec: &ComponentSpec, what: &str, name: &str) -> Failure {
    let component = &spec.name;
    Failure::argument(format!("component type `{component}` has a {what} `{name}` already"))
}

fn out_of_range(member: &str, value: impl Display, max: u32) -> Failure {
    Failure::argument(format!("`{member}` is {value}; it must be at most {max}"))
}

/// Adds a port to a component type.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid port (the message names the mistake) and
/// for a second port of the same name.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_component_add_port(
    component: Handle<Component>,
    port: Ref<Port>,
    error: ErrorOut,
) -> Status {
    component.declare(error, |spec| {
        let port = read_port(port)?;
        if spec.find_port(&port.name).is_some() {
            return Err(second(spec, "port", &port.name));
        }
        spec.ports.push(port);
        Ok(())
    })
}

/// Reads a port that the program has passed.
fn read_port(from: Ref<Port>) -> Result<PortSpec, Failure> {
    let given = from.read_given("port")?;
    let (name, types, same_as, property, summary, shape) = (
        given.name.required("port->name")?,
        given.types.optional("port->types")?,
        given.same_as.optional("port->same_as")?,
        given.type_property.optional("port->type_property")?,
        given.summary.optional("port->summary")?,
        given.shape.optional("port->shape")?,
    );
    check_name("port", name)?;
    let types = match (types, same_as, property) {
        (None, None, None) => PortTypes::Any,
        (Some(types), None, None) => {
            let names: Result<Vec<TypeName>, _> =
                types.split('|').map(|name| TypeName::parse(name.trim())).collect();
            let refused = |error| Failure::argument(format!("`port->types`: {error}"));
            PortTypes::OneOf(names.map_err(refused)?)
        }
        (None, Some(input), None) => PortTypes::SameAs(input.into()),
        (None, None, Some(property)) => PortTypes::Property(property.into()),
        _ => {
            return Err(Failure::argument(
                "two of `port->types`, `port->same_as` and `port->type_property` are set; set one of them",
            ));
        }
    };
    let direction = match given.direction {
        0 => Direction::Input,
        1 => Direction::Output,
        other => return Err(out_of_range("port->direction", other, 1)),
    };
    let mut port = PortSpec::new(name, direction, types, summary.unwrap_or(""));
    port.mandatory = given.optional == 0;
    port.many_writers = given.many_writers != 0;
    if port.many_writers && direction == Direction::Output {
        return Err(Failure::argument("`port->many_writers` is set for an output; it is for inputs"));
    }
    if let Some(word) = shape {
        let Some(found) = StreamShape::ALL.into_iter().find(|shape| shape.word() == word) else {
            let words = StreamShape::ALL.map(StreamShape::word).join(", ");
            return Err(Failure::argument(format!("`port->shape` is `{word}`; it must be one of {words}")));
        };
        if direction == Direction::Output {
            return Err(Failure::argument("`port->shape` is set for an output; it is for inputs"));
        }
        port.shape = Some(found);
    }
    Ok(port)
}

/// Adds a property to a component type.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid property, such as a default out of range
/// (the message names the mistake), and for a second property of the same name.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_component_add_property(
    component: Handle<Component>,
    property: Ref<Property>,
    error: ErrorOut,
) -> Status {
    component.declare(error, |spec| {
        let property = read_property(property)?;
        if spec.find_property(&property.name).is_some() {
            return Err(second(spec, "property", &property.name));
        }
        spec.properties.push(property);
        Ok(())
    })
}

/// Reads a property that the program has passed.
fn read_property(from: Ref<Property>) -> Result<PropertySpec, Failure> {
    let given = from.read_given("property")?;
    let (name, text, choices, unit, summary) = (
        given.name.required("property->name")?,
        given.text_default.optional("property->text_default")?,
        given.choices.optional("property->choices")?,
        given.unit.optional("property->unit")?,
        given.summary.optional("property->summary")?,
    );
    check_name("property", name)?;
    let summary = summary.unwrap_or("");
    let has_range = given.has_range != 0;
    let mut property = match given.kind {
        1 => {
            let made = PropertySpec::float(name, given.float_default, summary);
            if has_range { made.range(given.float_min, given.float_max) } else { made }
        }
        2 => {
            let (min, max) =
                if has_range { (given.integer_min, given.integer_max) } else { (i64::MIN, i64::MAX) };
            PropertySpec::integer(name, given.integer_default, min, max, summary)
        }
        3 => PropertySpec::boolean(name, given.integer_default != 0, summary),
        4 => PropertySpec::text(name, text.unwrap_or(""), summary),
        5 => {
            let words: Vec<&str> = choices.unwrap_or("").split('|').map(str::trim).collect();
            if words.iter().any(|word| word.is_empty()) {
                return Err(Failure::argument(format!(
                    "`property->choices` of `{name}` has an empty word; write its words as `low | high`"
                )));
            }
            PropertySpec::choice(name, &words, text.unwrap_or(words[0]), summary)
        }
        6 => PropertySpec::path(name, summary),
        other => {
            return Err(Failure::argument(format!("`property->kind` is {other}; it must be from 1 to 6")));
        }
    };
    property.access = match given.access {
        0 => Access::Fixed,
        1 => Access::Changeable,
        2 => Access::ReadOnly,
        other => return Err(out_of_range("property->access", other, 2)),
    };
    property.unit = unit.unwrap_or("").into();
    let is_ordered = match property.kind {
        RustKind::Float { min, max } => min.is_finite() && max.is_finite() && min <= max,
        RustKind::Integer { min, max } => min <= max,
        _ => true,
    };
    if !is_ordered {
        return Err(Failure::argument(format!("the range of property `{name}` has no number in it")));
    }
    if given.required == 0 {
        let default = property.default.clone().unwrap_or(Value::Boolean(false));
        property.check(&default).map_err(|problem| Failure::argument(format!("the default of {problem}")))?;
    } else if property.access == Access::ReadOnly {
        return Err(Failure::argument(format!(
            "property `{name}` is read-only and required: a waveform does not set it"
        )));
    } else {
        property.default = None;
    }
    Ok(property)
}

/// Adds a self-test to a component type. Users run it by `stripline test`. `summary` is one line
/// for users, and may be NULL.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid name, and for a second test of the same
/// name.
///
/// - Ownership: nothing is kept.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_component_add_test(
    component: Handle<Component>,
    name: Str,
    summary: Str,
    error: ErrorOut,
) -> Status {
    component.declare(error, |spec| {
        let (name, summary) = (name.required("name")?, summary.optional("summary")?);
        check_name("self-test", name)?;
        if spec.find_test(name).is_some() {
            return Err(second(spec, "self-test", name));
        }
        *spec = spec.clone().test(name, summary.unwrap_or(""));
        Ok(())
    })
}
