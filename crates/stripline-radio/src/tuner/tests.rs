//! A tuner is called by its client, and by a program that has only the names of the operations.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use stripline::call::{CallError, ClientOptions};
use stripline::node::Node;

use super::*;

/// A device in steps of 12.5 kHz, without bandwidth and without timed commands.
struct Device {
    frequency_hz: Mutex<f64>,
    is_gone: bool,
}

const DEVICE: &str = "device";

impl Tuner for Device {
    fn frequency(&self) -> Result<f64, TunerError> {
        if self.is_gone {
            Err(TunerError::Gone { device: DEVICE.into() })
        } else {
            Ok(*self.frequency_hz.lock().unwrap())
        }
    }

    fn set_frequency(&self, frequency_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        TunerError::check_untimed(TunerSetting::Frequency, at_ns, DEVICE)?;
        TunerRange::check(TunerSetting::Frequency, frequency_hz, &self.abilities()?.frequency_hz)?;
        let reached_hz = (frequency_hz / 12.5e3).round() * 12.5e3;
        *self.frequency_hz.lock().unwrap() = reached_hz;
        Ok(reached_hz)
    }

    fn rate(&self) -> Result<f64, TunerError> {
        Ok(2e6)
    }

    fn set_rate(&self, rate_hz: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        TunerError::check_untimed(TunerSetting::Rate, at_ns, DEVICE)?;
        TunerRange::check(TunerSetting::Rate, rate_hz, &[TunerRange::only(2e6)])?;
        Ok(rate_hz)
    }

    fn gain(&self) -> Result<f64, TunerError> {
        Ok(20.0)
    }

    fn set_gain(&self, gain_db: f64, at_ns: Option<i64>) -> Result<f64, TunerError> {
        match at_ns {
            Some(at_ns) => Err(TunerError::Late { setting: TunerSetting::Gain, at_ns, now_ns: at_ns + 1 }),
            None => Ok(gain_db.round()),
        }
    }

    fn stage_gain(&self, stage: String) -> Result<f64, TunerError> {
        TunerError::check_name(TunerSetting::StageGain, &stage, &["LNA".into()])?;
        Ok(8.0)
    }

    fn set_stage_gain(&self, stage: String, gain_db: f64, _: Option<i64>) -> Result<f64, TunerError> {
        self.stage_gain(stage).map(|_| gain_db)
    }

    fn automatic_gain(&self) -> Result<bool, TunerError> {
        Ok(false)
    }

    fn set_automatic_gain(&self, is_on: bool, _: Option<i64>) -> Result<bool, TunerError> {
        Ok(is_on)
    }

    fn antenna(&self) -> Result<String, TunerError> {
        Ok("RX".into())
    }

    fn set_antenna(&self, antenna: String, _: Option<i64>) -> Result<String, TunerError> {
        TunerError::check_name(TunerSetting::Antenna, &antenna, &["RX".into()])?;
        Ok(antenna)
    }

    fn abilities(&self) -> Result<TunerAbilities, TunerError> {
        let frequency_hz = vec![TunerRange { min: 24e6, max: 1766e6, step: 12.5e3 }];
        Ok(TunerAbilities { device: DEVICE.into(), frequency_hz, ..TunerAbilities::default() })
    }
}

fn offered(is_gone: bool) -> (Arc<Node>, OfferedTuner) {
    let node = Arc::new(Node::isolated().unwrap());
    let device = Device { frequency_hz: Mutex::new(100e6), is_gone };
    let offered = OfferedTuner::in_node(Arc::clone(&node), TunerService::NAME, "source", device).unwrap();
    (node, offered)
}

fn client(node: &Node) -> TunerClient {
    TunerClient::connect(node, TunerService::NAME, ClientOptions::default()).unwrap()
}

/// Returns the operation's own error.
fn refused<T: std::fmt::Debug>(outcome: Result<T, CallError<TunerError>>) -> TunerError {
    match outcome {
        Err(CallError::User(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// Checks that each operation returns the value reached, and each refusal its kind.
#[test]
fn settings_return_the_value_reached() {
    let (node, _offered) = offered(false);
    let tuner = client(&node);
    assert_eq!(tuner.set_frequency(433.92e6, None).unwrap(), 433.925e6);
    assert_eq!(tuner.frequency().unwrap(), 433.925e6);
    assert_eq!(tuner.set_gain(19.7, None).unwrap(), 20.0);
    assert_eq!(tuner.set_stage_gain("LNA".into(), 16.0, None).unwrap(), 16.0);
    assert_eq!(tuner.set_antenna("RX".into(), None).unwrap(), "RX");
    assert!(tuner.set_automatic_gain(true, None).unwrap());
    assert_eq!(tuner.abilities().unwrap().frequency_hz[0].step, 12.5e3);

    let error = refused(tuner.set_frequency(2.4e9, None));
    assert_eq!(error.to_string(), "frequency is 2400000000 Hz; the device takes 24000000 to 1766000000 Hz");
    assert!(matches!(refused(tuner.set_frequency(f64::NAN, None)), TunerError::OutOfRange { .. }));
    assert!(matches!(refused(tuner.set_rate(2e6, Some(5))), TunerError::NotTimed { .. }));
    assert!(matches!(refused(tuner.set_gain(1.0, Some(5))), TunerError::Late { at_ns: 5, now_ns: 6, .. }));
    assert!(matches!(refused(tuner.bandwidth()), TunerError::NotSupported { .. }));
    let names = |error| matches!(error, TunerError::NoSuchName { names, .. } if names == ["LNA"]);
    assert!(names(refused(tuner.stage_gain("VGA".into()))));
}

/// Calls with names and JSON-like values only, as `stripline call` and other languages do.
#[test]
fn a_program_without_the_trait_calls_by_name() {
    let (node, _offered) = offered(false);
    let client = node.service_client(TunerService::NAME, ClientOptions::default()).unwrap();
    let call = |operation: &str, request: Value| {
        client.operation::<Value, Value, Value>(operation).unwrap().call(&request)
    };
    assert_eq!(call("set_frequency", json!([433.92e6, null])).unwrap(), json!(433.925e6));
    assert_eq!(call("frequency", json!(null)).unwrap(), json!(433.925e6));
    let abilities = call("abilities", json!(null)).unwrap();
    assert_eq!(abilities["frequency_hz"], json!([{"min": 24e6, "max": 1766e6, "step": 12.5e3}]));
    assert_eq!((&abilities["antennas"], &abilities["is_timed"]), (&json!([]), &json!(false)));
    let Err(CallError::User(error)) = call("set_frequency", json!([433.92e6, 1])) else { panic!() };
    assert_eq!(error, json!({"NotTimed": {"setting": "frequency", "device": "device"}}));
    let Err(CallError::User(error)) = call("set_antenna", json!(["TX", null])) else { panic!() };
    assert_eq!(error, json!({"NoSuchName": {"setting": "antenna", "requested": "TX", "names": ["RX"]}}));
    // A value of another type is no crash of the server.
    for other in [json!("high"), json!([433_920_000, null]), json!([433.92e6])] {
        assert!(matches!(call("set_frequency", other), Err(CallError::Refused { .. })));
    }
    assert!(call("frequency", json!(null)).is_ok());
}

/// Checks that a device that is gone is an error of each call, and that the end of an offer is one
/// for its clients.
#[test]
fn a_device_that_is_gone_is_named() {
    let (node, offered) = offered(true);
    let tuner = client(&node);
    assert_eq!(refused(tuner.frequency()).to_string(), "device is gone");
    drop(offered);
    assert!(matches!(tuner.frequency(), Err(CallError::Link(_) | CallError::ServerGone { .. })));
}

/// Makes an offer without a name nothing, and a wrong name an error.
#[test]
fn the_name_of_the_service_is_a_property() {
    use stripline::component::{ComponentSpec, Properties, Value};

    let spec = ComponentSpec::new("radio", "A radio.").property(OfferedTuner::property());
    let device = || Device { frequency_hz: Mutex::new(100e6), is_gone: false };
    let with = |name: &str| {
        let given = [(OfferedTuner::PROPERTY.to_owned(), Value::Text(name.into()))].into();
        OfferedTuner::of_properties(&Properties::new(&spec, given).unwrap(), "radio", device())
    };
    assert!(with("").unwrap().is_none());
    assert!(with("no spaces").map(drop).unwrap_err().to_string().contains("`no spaces`"));
}
