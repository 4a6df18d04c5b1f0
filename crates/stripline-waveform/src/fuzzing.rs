//! Access to private code for the fuzz targets. Compiled only under `cfg(fuzzing)`, and not part of
//! the interface.

use stripline::call::Payload;
use stripline::component::{ComponentSpec, Properties, PropertySpec, Value};

use crate::control::Setting;

/// Parses the bytes as a request to a launcher or as a reply, depending on `kind`. Returns
/// equivalent bytes and the text for display.
pub fn control_words(kind: u8, bytes: &[u8]) -> Option<(Vec<u8>, String)> {
    use crate::control as c;
    fn word<T: Payload + std::fmt::Debug>(bytes: &[u8]) -> Option<(Vec<u8>, String)> {
        let word = T::decode(bytes).ok()?;
        let mut scratch = Vec::new();
        let again = word.encode(&mut scratch).ok()?.to_vec();
        Some((again, format!("{word:?}")))
    }
    match kind % 10 {
        0 => word::<c::GetRequest>(bytes),
        1 => word::<c::SetRequest>(bytes),
        2 => word::<c::TestRequest>(bytes),
        3 => word::<c::StopRequest>(bytes),
        4 => word::<c::RunningWaveform>(bytes),
        5 => word::<Vec<c::PropertyReading>>(bytes),
        6 => word::<Vec<c::ComponentChange>>(bytes),
        7 => word::<Vec<c::TestRun>>(bytes),
        8 => word::<c::Stopped>(bytes),
        _ => word::<c::RequestFault>(bytes),
    }
}

/// Parses an argument of `stripline set`. Returns the argument as it would be written, and the
/// value for a property of each kind for which it is valid.
pub fn setting(text: &str) -> Option<(String, Vec<Result<Value, String>>)> {
    let setting: Setting = text.parse().ok()?;
    let kinds = [
        PropertySpec::float("p", 0.5, "").range(0.0, 1.0),
        PropertySpec::integer("p", 0, -5, 5, ""),
        PropertySpec::boolean("p", true, ""),
        PropertySpec::choice("p", &["yes", "no"], "no", ""),
        PropertySpec::text("p", "", ""),
        PropertySpec::path("p", ""),
    ];
    let spec = |kind: PropertySpec| ComponentSpec::new("x", "").property(kind.changeable());
    let taken = kinds.into_iter().map(|kind| {
        let value = kind.parse(&setting.value)?;
        let spec = spec(kind);
        let changes = [("p".to_string(), value)].into();
        let all = Properties::defaults(&spec).and_then(|all| all.changed(&spec, &changes));
        all.map_err(|errors| errors.join("; "))
            .map(|all| all.value("p").cloned().unwrap_or(Value::Boolean(false)))
    });
    let taken = taken.collect();
    Some((format!("{}.{}={}", setting.component, setting.property, setting.value), taken))
}
