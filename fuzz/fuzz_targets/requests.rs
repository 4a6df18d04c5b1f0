//! Requests to a running launcher, the replies, and the arguments of `stripline set`.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline::component::Value;
use stripline_waveform::fuzzing::{control_words, setting};

fuzz_target!(|data: &[u8]| {
    let Some((kind, bytes)) = data.split_first() else { return };
    if let Some((again, shown)) = control_words(*kind, bytes) {
        let same = control_words(*kind, &again);
        assert_eq!(same.map(|(_, shown)| shown), Some(shown), "it does not round-trip");
    }
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Some((again, taken)) = setting(text) else { return };
    assert_eq!(text, again, "nothing is left out of a setting");
    let [float, integer, boolean, choice, any, path] = &taken[..] else { panic!("six kinds") };
    if let Ok(value) = float {
        assert!(matches!(value, Value::Float(x) if (0.0..=1.0).contains(x)));
    }
    if let Ok(value) = integer {
        assert!(matches!(value, Value::Integer(-5..=5)));
    }
    if let Ok(value) = boolean {
        assert!(matches!(value, Value::Boolean(_)));
    }
    if let Ok(value) = choice {
        assert!(matches!(value, Value::Text(word) if word == "yes" || word == "no"));
    }
    assert!(matches!(any, Ok(Value::Text(_))));
    if let Ok(value) = path {
        assert!(matches!(value, Value::Text(path) if !path.contains('\0')));
    }
});
