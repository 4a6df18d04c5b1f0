//! The components that the files of the corpus name.

use std::collections::BTreeMap;

use num_complex::Complex;
use stripline::component::{
    ComponentSpec, Direction, InvalidProperties, OrderRule, PortSpec, PortTypes, Properties, PropertyFacts,
    PropertySpec, RateRule, StreamShape,
};
use stripline::payload::{Scalar, TypeName};

pub fn stock() -> BTreeMap<String, ComponentSpec> {
    let optional = |direction, name, types| PortSpec::new(name, direction, types, "samples").optional();
    let sink = PortSpec::new("in", Direction::Input, PortTypes::Any, "anything").many_writers();
    let specs = [
        ComponentSpec::new("clock", "Has no ports."),
        ComponentSpec::new("tone", "A complex tone.")
            .output("out", PortTypes::of::<Complex<f32>>(), "the tone")
            .property(PropertySpec::float("frequency", 1e3, "its frequency").range(0.0, 1e9).unit("Hz"))
            .property(PropertySpec::integer("order", 8, 1, 64, "filter order"))
            .property(PropertySpec::choice("window", &["hann", "hamming", "none"], "hann", "window"))
            .property(PropertySpec::boolean("real", false, "without imaginary part"))
            .property(PropertySpec::text("label", "", "a label"))
            .validated(window_of_short_filters),
        ComponentSpec::new("audio-tone", "A real tone.").output("out", PortTypes::of::<f32>(), "the tone"),
        ComponentSpec::new("quiet", "May stay alone.").port(optional(
            Direction::Output,
            "out",
            PortTypes::of::<f32>(),
        )),
        ComponentSpec::new("generator", "Complex or real samples.").output("out", cf32_or_f32(), "samples"),
        ComponentSpec::new("file-source", "Samples from a file.")
            .output("out", PortTypes::Property("format".into()), "samples")
            .property(PropertySpec::path("path", "the file to read").required())
            .property(PropertySpec::choice(
                "format",
                &["cf32", "f32", "s16"],
                "cf32",
                "the type of the samples",
            ))
            .property(PropertySpec::float("gain", -3.0, "gain").range(f64::MIN, 20.0).unit("dB"))
            .validated(file_without_gain),
        ComponentSpec::new("gain", "Multiplies by a factor.")
            .input("in", cf32_or_f32(), "samples")
            .output("out", same("in"), "samples times the factor")
            .property(PropertySpec::float("factor", 1.0, "linear gain"))
            .any_dispatch(),
        ComponentSpec::new("mixer", "Multiplies two streams.")
            .input("left", cf32_or_f32(), "samples")
            .input("right", same("left"), "samples")
            .output("out", same("left"), "their product")
            .sample_rate(RateRule::inputs()),
        ComponentSpec::new("sampler", "Sends samples of a rate.")
            .output("out", PortTypes::of::<f32>(), "samples")
            .property(PropertySpec::float("sample_rate", 48e3, "their rate").range(0.0, 1e12).unit("Hz"))
            .sample_rate(RateRule::property("sample_rate").or_none()),
        ComponentSpec::new("level-meter", "Measures a band.")
            .input("in", PortTypes::of::<f32>(), "samples")
            .property(PropertySpec::float("sample_rate", 0.0, "their rate").range(0.0, 1e12).unit("Hz"))
            .sample_rate(RateRule::property("sample_rate").or_input("in").needed()),
        ComponentSpec::new("spectra", "Rows of a spectrum each.")
            .port(
                PortSpec::new("in", Direction::Input, PortTypes::of::<f32>(), "samples")
                    .shape(StreamShape::Signal),
            )
            .output("out", PortTypes::of::<f32>(), "rows")
            .property(PropertySpec::integer("size", 8, 2, 64, "samples of a row"))
            .sample_order(OrderRule { rows: Some("size".into()), ..OrderRule::default() }),
        ComponentSpec::new("magnitude", "Magnitude of complex samples.")
            .input("in", PortTypes::of::<Complex<f32>>(), "samples")
            .output("out", PortTypes::of::<f32>(), "magnitudes")
            .any_dispatch(),
        ComponentSpec::new("cast", "Reinterprets samples as another type.")
            .input("in", PortTypes::Any, "samples")
            .output("out", PortTypes::Property("as".into()), "the same bytes")
            .property(PropertySpec::text("as", "f32", "the type")),
        ComponentSpec::new("tee", "Copies a stream.")
            .input("in", PortTypes::Any, "anything")
            .output("a", same("in"), "the same")
            .port(optional(Direction::Output, "b", same("in"))),
        ComponentSpec::new("throttle", "Slows a stream down.")
            .input("in", PortTypes::Any, "anything")
            .output("out", same("in"), "the same, later"),
        ComponentSpec::new("scope", "Shows samples.").port(optional(
            Direction::Input,
            "in",
            PortTypes::of::<f32>(),
        )),
        ComponentSpec::new("audio-sink", "Plays samples.").input("in", PortTypes::of::<f32>(), "samples"),
        ComponentSpec::new("null-sink", "Drops everything.").port(sink),
        ComponentSpec::new("fixed-rate", "Takes one rate.")
            .input("in", PortTypes::of::<f32>(), "samples")
            .sample_rate(RateRule::input("in").only(48_000)),
        ComponentSpec::new("file-sink", "Samples to a file.")
            .input("in", PortTypes::of::<Complex<f32>>(), "samples")
            .property(PropertySpec::path("path", "the file"))
            .property(PropertySpec::choice("format", &["as-received", "cs16"], "as-received", "format"))
            .facts(|properties| {
                let path = properties.path("path").unwrap_or_default();
                let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
                let scalar = Scalar::parse(ending).filter(|_| properties.text("format") != "cs16");
                let named_payload = scalar.and_then(|scalar| TypeName::parse(&scalar.to_string()).ok());
                PropertyFacts { writes: vec![path], named_payload, ..PropertyFacts::default() }
            }),
    ];
    specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect()
}

/// Returns the components for the files about layouts, in addition to the stock components.
pub fn with_layouts() -> BTreeMap<String, ComponentSpec> {
    let specs = [
        ComponentSpec::new("detector", "Sends detections.").output(
            "out",
            PortTypes::OneOf(vec![det("range_bin:u32,doppler_bin:s32,level_db:f32")]),
            "detections",
        ),
        ComponentSpec::new("old-tracker", "Takes detections of another version.").input(
            "in",
            PortTypes::OneOf(vec![det("level_db:f32,range_bin:u32,doppler_bin:s32")]),
            "detections",
        ),
        ComponentSpec::new("tracker", "Takes detections.").input(
            "in",
            PortTypes::OneOf(vec![det("range_bin:u32,doppler_bin:s32,level_db:f32")]),
            "detections",
        ),
        ComponentSpec::new("bare-tracker", "Takes detections of no layout.").input(
            "in",
            PortTypes::OneOf(vec![TypeName::new("det").unwrap()]),
            "detections",
        ),
        ComponentSpec::new("tuner", "Sends commands.").output("out", tune("{hz:f64}"), "commands"),
        ComponentSpec::new("radio", "Takes commands.").input("in", tune("{hz:f64}"), "commands"),
        ComponentSpec::new("old-radio", "Takes others.").input("in", tune("{mhz:f64}"), "commands"),
        ComponentSpec::new("bare-radio", "Takes any of the name.").input("in", tune(""), "commands"),
        ComponentSpec::new("bare-tuner", "Sends any of the name.").output("out", tune(""), "commands"),
    ];
    stock().into_iter().chain(specs.into_iter().map(|spec| (spec.name.clone(), spec))).collect()
}

fn cf32_or_f32() -> PortTypes {
    PortTypes::OneOf(vec![TypeName::of::<Complex<f32>>(), TypeName::of::<f32>()])
}

fn det(fields: &str) -> TypeName {
    TypeName::parse(&format!("det{{{fields}}}")).unwrap()
}

fn same(port: &str) -> PortTypes {
    PortTypes::SameAs(port.into())
}

fn window_of_short_filters(properties: &Properties) -> stripline::Result<()> {
    match (properties.text("window"), properties.integer("order")) {
        ("none", 33..) => {
            let invalid =
                InvalidProperties::new("`order` is above 32, and there is no window").property("order");
            Err(invalid.remedy("lower it, or choose a window").into())
        }
        _ => Ok(()),
    }
}

fn file_without_gain(properties: &Properties) -> stripline::Result<()> {
    let path = properties.path("path").unwrap_or_default();
    match path.ends_with("gone.cf32") {
        true => Err(InvalidProperties::new("there is no such file").property("path").into()),
        false if path.ends_with("folder") => panic!("it is a folder"),
        false => Ok(()),
    }
}

/// Returns the type of a message with that structure.
fn tune(structure: &str) -> PortTypes {
    PortTypes::OneOf(vec![TypeName::parse(&format!("message/tune{structure}")).unwrap()])
}
