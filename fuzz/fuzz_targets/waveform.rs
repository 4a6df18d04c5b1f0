//! Waveform files and `--set` options. A stub provides the descriptions of executables.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use num_complex::Complex;
use stripline::component::{ComponentSpec, Direction, PortSpec, PortTypes, Properties, PropertySpec};
use stripline::payload::TypeName;
use stripline_fuzz as _;
use stripline_waveform::{Catalog, DescribeError, ExecutableSpecs, Overrides, Placement, ProgramCommand, parse_bytes}; // for the allocator

fn cf32_or_f32() -> PortTypes {
    PortTypes::OneOf(vec![TypeName::of::<Complex<f32>>(), TypeName::of::<f32>()])
}

static SPECS: LazyLock<BTreeMap<String, ComponentSpec>> = LazyLock::new(|| {
    let specs = [
        ComponentSpec::new("clock", "Has no ports."),
        ComponentSpec::new("tone", "A tone.")
            .output("out", cf32_or_f32(), "the tone")
            .property(PropertySpec::float("frequency", 1e3, "its frequency").range(0.0, 1e9).unit("Hz"))
            .property(PropertySpec::integer("order", 8, 1, 64, "filter order"))
            .property(PropertySpec::boolean("real", false, "without imaginary part"))
            .property(PropertySpec::text("label", "", "a label")),
        ComponentSpec::new("source", "Samples from a file.")
            .output("out", PortTypes::Property("format".into()), "samples")
            .property(PropertySpec::path("path", "the file").required())
            .property(PropertySpec::choice("format", &["cf32", "f32"], "cf32", "the type of the samples")),
        ComponentSpec::new("mixer", "Multiplies two streams.")
            .input("left", cf32_or_f32(), "samples")
            .input("right", PortTypes::SameAs("left".into()), "samples")
            .output("out", PortTypes::SameAs("left".into()), "the product"),
        ComponentSpec::new("sink", "Takes anything.").port(
            PortSpec::new("in", Direction::Input, PortTypes::Any, "anything").many_writers().optional(),
        ),
    ];
    specs.into_iter().map(|spec| (spec.name.clone(), spec)).collect()
});

fn describe(command: &ProgramCommand) -> Result<ExecutableSpecs, DescribeError> {
    match command.program.file_name().and_then(|name| name.to_str()) {
        Some("fails") => Err(DescribeError::Failed(command.clone(), 1, "no\u{1b}[2J words".into())),
        Some("nonsense") => Err(DescribeError::Nonsense(command.clone(), "`".into())),
        Some(name) => SPECS
            .get(name)
            .cloned()
            .map(ExecutableSpecs::from)
            .ok_or_else(|| DescribeError::Missing(command.clone())),
        None => Err(DescribeError::TooMuch(command.clone())),
    }
}

fuzz_target!(|data: &[u8]| {
    // Options follow a zero byte, one per line.
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (file, options) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let options = String::from_utf8_lossy(options);
    let mut overrides = Overrides::default();
    for line in options.lines() {
        match line.split_once(' ') {
            Some(("transport", name)) => overrides.transport = Some(name.into()),
            Some(("placement", "threads")) => overrides.placement = Some(Placement::Thread),
            Some(("placement", _)) => overrides.placement = Some(Placement::Process),
            _ => overrides.set.push(line.into()),
        }
    }
    let ask_validity = |_: &ProgramCommand, _: &str, _: &Properties| Ok(None);
    let transports = &["inproc", "shm", "uds", "tcp"];
    let catalog = Catalog { describe, ask_validity, ..Catalog::new(&SPECS, transports) };
    let path = Path::new("folder/waveform.toml");
    let outcome = parse_bytes(file, path, &overrides, &catalog);
    let (waveform, found) = match outcome {
        Ok((waveform, found)) => {
            assert!(!found.has_errors());
            (Some(waveform), found)
        }
        Err(found) => {
            assert!(found.has_errors(), "refused without a reason");
            (None, found)
        }
    };
    let text = found.to_string();
    let is_text = |c: char| c == '\n' || !c.is_control();
    assert!(text.chars().all(is_text), "printed text moves the cursor: {text:?}");
    if let Some(waveform) = waveform {
        assert!(!waveform.components.is_empty());
        for connection in &waveform.connections {
            for port in [&connection.from, &connection.to] {
                assert!(waveform.components.iter().any(|component| component.name == port.component));
            }
            connection.options.check().unwrap();
        }
    }
});
