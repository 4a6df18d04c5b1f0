//! The self-descriptions of the stock components, and the example waveforms, checked without
//! running them.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;

use stripline::component::{Direction, Properties, PropertyKind, Registry};
use stripline::transport;
use stripline_components::registry;
use stripline_waveform::internal::check_spec;
use stripline_waveform::{Catalog, Overrides, Placement, load, parse_bytes};

#[test]
fn every_description_is_sound_and_says_something() {
    let registry = registry();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/components");
    let middleware = stripline_middleware::with_components(Registry::new());
    let joining = stripline_radio::with_components(middleware).specs().len();
    assert_eq!(
        registry.specs().len() - joining,
        components_in(&source),
        "a component is not in `registry()`"
    );
    for spec in registry.specs().values() {
        assert_eq!(check_spec(spec), [""; 0], "{}", spec.name);
        assert!(spec.summary.ends_with('.'), "{}: {}", spec.name, spec.summary);
        for (name, summary) in spec
            .ports
            .iter()
            .map(|p| (&p.name, &p.summary))
            .chain(spec.properties.iter().map(|p| (&p.name, &p.summary)))
        {
            assert!(!summary.is_empty() && !summary.ends_with('.'), "{}.{name}: {summary}", spec.name);
        }
        assert!(spec.name.ends_with("-sink") || spec.ports.iter().any(|p| p.direction == Direction::Output));
        for property in &spec.properties {
            let is_open = matches!(property.kind, PropertyKind::Float { min, .. } if min == f64::MIN);
            assert!(
                !is_open || ["amplitude", "offset"].contains(&&*property.name),
                "{}.{}",
                spec.name,
                property.name
            );
        }
    }
}

/// Counts the components in the sources of a folder.
fn components_in(folder: &Path) -> usize {
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let count = |path: PathBuf| match path.is_dir() {
        true => components_in(&path),
        false => {
            let text = std::fs::read_to_string(path).unwrap();
            let is_component =
                |line: &&str| line.starts_with("impl Component for") || line.starts_with("impl Handler for");
            text.lines().filter(is_component).count()
        }
    };
    files.map(count).sum()
}

#[test]
fn what_is_shown_as_an_example_is_taken() {
    for spec in registry().specs().values() {
        let required = spec.properties.iter().filter(|property| property.default.is_none());
        let registered =
            required.filter_map(|property| Some((property.name.clone(), property.example.clone()?)));
        // The file does not exist, so `file-source` and others cannot play it.
        let Ok(properties) = Properties::new(spec, registered.collect()) else {
            assert!(
                spec.properties.iter().any(|property| property.kind == PropertyKind::Path),
                "{}",
                spec.name
            );
            continue;
        };
        assert_eq!(spec.validate(&properties), Ok(()), "{}", spec.name);
    }
}

#[test]
fn the_example_waveforms_are_right_over_every_transport() {
    let registry = registry();
    let transports: Vec<&str> = transport::all().map(|transport| transport.name).collect();
    let catalog = Catalog::new(registry.specs(), &transports);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../waveforms");
    for name in ["adsb.toml", "fm.toml", "scan.toml", "spectrum.toml", "vita49.toml", "vita49-send.toml"] {
        let path = folder.join(name);
        let ways = transports.iter().map(|name| (Some(*name), Placement::Thread));
        for (transport, placement) in ways.chain([(None, Placement::Thread), (None, Placement::Process)]) {
            let overrides = Overrides {
                transport: transport.map(str::to_owned),
                placement: Some(placement),
                ..Overrides::default()
            };
            let (waveform, warnings) = load(&path, &overrides, &catalog).unwrap_or_else(|e| panic!("{e}"));
            assert!(!waveform.description.is_empty());
            assert_eq!(warnings.iter().count(), 0, "{}: {warnings}", path.display());
        }
    }
}

/// Replaces the source of aircraft by a dongle, as docs/components.md shows. The properties of the
/// earlier type are left out.
#[test]
fn an_option_replaces_the_type_of_a_component() {
    let registry = registry();
    let transports: Vec<&str> = transport::all().map(|transport| transport.name).collect();
    let catalog = Catalog::new(registry.specs(), &transports);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../waveforms/adsb.toml");
    let loaded = |set: &[&str]| {
        let set = set.iter().map(|option| (*option).to_owned()).collect();
        load(&path, &Overrides { set, ..Overrides::default() }, &catalog).map_err(|found| found.to_string())
    };
    // The order of the options has no effect.
    let options = ["source.address=127.0.0.1:1234", "source.type=rtl-tcp-source"];
    let (waveform, warnings) = loaded(&options).unwrap();
    assert!(warnings.is_empty(), "{warnings}");
    let source = waveform.components.iter().find(|component| component.name == "source").unwrap();
    assert_eq!(source.spec.name, "rtl-tcp-source");
    assert_eq!(source.properties.text("address"), "127.0.0.1:1234");
    for (set, problem) in [
        (&["source.type=rtl-tcp-source"][..], "needs its property `address`"),
        (&["source.type=rtl-tcp-sourc"], "did you mean `rtl-tcp-source`"),
        (&[options[0], options[1], "source.aircraft=3"], "`aircraft`"),
        (&[options[0], options[1], "source.sample_rate=1e6"], "1000000"),
        (&["sauce.type=rtl-tcp-source"], "there is no component `sauce`"),
    ] {
        let found = loaded(set).map(drop).unwrap_err();
        assert!(found.contains(problem), "{set:?}: {found}");
    }
    // A type with a property of this name: the option sets the property.
    let replay = Overrides { set: vec!["source.type=f32".into()], ..Overrides::default() };
    let text = b"[component.source]\ntype = 'replay'\nproperties = { path = 'none.slrec' }";
    let found = parse_bytes(text, &path, &replay, &catalog).map(drop).unwrap_err().to_string();
    assert!(!found.contains("unknown component type"), "{found}");
}

#[test]
fn the_waveforms_in_the_documents_pass_the_check() {
    let registry = registry();
    let transports: Vec<&str> = transport::all().map(|transport| transport.name).collect();
    let catalog = Catalog::new(registry.specs(), &transports);
    let folder = tempfile::tempdir().unwrap();
    // The file `capture.bin` is the recording that the examples play.
    std::fs::write(folder.path().join("capture.bin"), [0; 64]).unwrap();
    // The pipe from another program in docs/join.md.
    let pipe = Command::new("mkfifo").arg(folder.path().join("to.fifo")).status();
    assert!(pipe.unwrap().success());
    let documents = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    let mut checked = Vec::new();
    for path in std::fs::read_dir(documents).unwrap().map(|entry| entry.unwrap().path()) {
        // A test in Python carries out docs/radar.md.
        if path.extension().is_none_or(|ending| ending != "md") || path.ends_with("radar.md") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let blocks = text.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next());
        for waveform in blocks.filter(|block| block.contains("[component.")) {
            let name = folder.path().join("example.toml");
            let found = parse_bytes(waveform.as_bytes(), &name, &Overrides::default(), &catalog);
            let (waveform, warnings) = found.unwrap_or_else(|found| panic!("{}:\n{found}", path.display()));
            assert!(warnings.is_empty(), "{}: {warnings}", path.display());
            checked.push((waveform.components.len(), waveform.connections.len()));
        }
    }
    assert!(checked.contains(&(3, 2)), "the example of the reference: {checked:?}");
}
