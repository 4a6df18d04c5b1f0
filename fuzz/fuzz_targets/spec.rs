//! The self-description of an executable: its JSON, the check, and its use in a waveform.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::collections::BTreeMap;
use std::path::Path;

use libfuzzer_sys::fuzz_target;
use stripline::component::{ComponentSpec, Properties};
use stripline_fuzz as _;
use stripline_waveform::internal::{check_spec, render_component, render_component_list};
use stripline_waveform::{Catalog, DescribeError, Overrides, ProgramCommand, parse_bytes}; // for the allocator

fuzz_target!(|data: &[u8]| {
    // A property's value follows a zero byte.
    let mut parts = data.splitn(2, |byte| *byte == 0);
    let (json, value) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let Ok(spec) = serde_json::from_slice::<ComponentSpec>(json) else { return };
    let value = String::from_utf8_lossy(value);
    if !check_spec(&spec).is_empty() {
        return;
    }
    let text = serde_json::to_vec(&spec).unwrap();
    assert_eq!(serde_json::from_slice::<ComponentSpec>(&text).unwrap(), spec);
    let is_text = |c: char| c == '\n' || !c.is_control();
    // Allowed values of a property may contain control characters. The ports and the summary may
    // not.
    for width in [None, Some(0), Some(1), Some(80)] {
        let _ = render_component_list([&spec], width);
        assert!(!render_component(&spec, width).is_empty());
    }
    assert!(spec.summary.chars().all(is_text));
    let _ = Properties::defaults(&spec).map_err(|errors| errors.join("\n"));
    let mut values = BTreeMap::new();
    for property in &spec.properties {
        let _ = (property.kind.noun(), property.kind.range_text());
        if let Ok(value) = property.parse(&value) {
            assert_eq!(property.check(&value).as_ref(), Ok(&value), "checked twice, it changes");
            values.insert(property.name.clone(), value);
        } else if let Some(default) = &property.default {
            values.insert(property.name.clone(), default.clone());
        }
    }
    if values.len() == spec.properties.len() {
        Properties::new(&spec, values).unwrap();
    }
    // Use the component as the only one of a waveform.
    let file = format!("[component.c]\ntype = \"{}\"\n", spec.name);
    let set = spec.properties.iter().map(|property| format!("c.{}={value}", property.name)).collect();
    let components = BTreeMap::from([(spec.name.clone(), spec)]);
    let describe = |command: &ProgramCommand| Err(DescribeError::Missing(command.clone()));
    let ask_validity = |_: &ProgramCommand, _: &str, _: &Properties| Ok(None);
    let catalog = Catalog { describe, ask_validity, ..Catalog::new(&components, &["shm"]) };
    let overrides = Overrides { set, ..Overrides::default() };
    for overrides in [Overrides::default(), overrides] {
        if let Err(found) = parse_bytes(file.as_bytes(), Path::new("w.toml"), &overrides, &catalog) {
            assert!(found.to_string().chars().all(is_text), "{found}");
        }
    }
});
