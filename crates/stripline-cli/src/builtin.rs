//! The waveforms that are built into the command: `stripline run adsb`.

use std::path::Path;

/// The names and texts of the built-in waveforms. A built-in waveform needs no file, no user's
/// component and no library of the system. `src/waveforms` has links to the files, so that the
/// package of this crate contains them.
const ALL: [(&str, &str); 7] = [
    ("adsb", include_str!("waveforms/adsb.toml")),
    ("fm", include_str!("waveforms/fm.toml")),
    ("radio", include_str!("waveforms/radio.toml")),
    ("scan", include_str!("waveforms/scan.toml")),
    ("spectrum", include_str!("waveforms/spectrum.toml")),
    ("vita49", include_str!("waveforms/vita49.toml")),
    ("vita49-send", include_str!("waveforms/vita49-send.toml")),
];

/// Returns the text of the built-in waveform with that name. Returns `None` if a file has that
/// name, with or without `.toml`: the user may mean the file.
pub(crate) fn waveform(file: &Path) -> Option<&'static str> {
    let found = ALL.iter().find(|(name, _)| file.as_os_str() == *name)?;
    let is_file = file.exists() || file.with_extension("toml").exists();
    (!is_file).then_some(found.1)
}

/// Returns the names of the built-in waveforms, as a list for people.
pub(crate) fn names() -> String {
    ALL.map(|(name, _)| name).join(", ")
}

#[cfg(test)]
mod tests {
    use stripline_components::registry;
    use stripline_waveform::{Catalog, Overrides, parse_bytes};

    use super::*;

    #[test]
    fn every_one_is_sound() {
        let registry = registry();
        let names: Vec<&str> = stripline::transport::all().map(|transport| transport.name).collect();
        for (name, text) in ALL {
            let catalog = Catalog::new(registry.specs(), &names);
            let found = parse_bytes(text.as_bytes(), Path::new(name), &Overrides::default(), &catalog);
            let (waveform, warnings) = found.unwrap_or_else(|errors| panic!("{name}: {errors}"));
            assert_eq!(waveform.name, name);
            assert!(warnings.is_empty(), "{name}: {warnings}");
        }
    }

    #[test]
    fn other_names_are_files() {
        assert_eq!(waveform(Path::new("adsb")), Some(ALL[0].1));
        for other in ["", "adsb.toml", "./adsb", "ADSB", "waveforms/adsb"] {
            assert_eq!(waveform(Path::new(other)), None, "{other}");
        }
    }
}
