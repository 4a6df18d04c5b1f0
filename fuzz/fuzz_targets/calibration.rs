//! Calibration files.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::fuzz_target;
use stripline_bench::calibration::Calibration;
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    match Calibration::parse(data) {
        Ok(calibration) => {
            let text = serde_json::to_vec(&calibration).expect("it has no keys but texts");
            assert_eq!(Calibration::parse(&text).as_ref(), Ok(&calibration));
            assert!(calibration.runs() > 0 && !calibration.transports().is_empty());
            for own in calibration.transports() {
                assert_eq!(calibration.of(&own.transport), Some(&own.costs[..]));
                for cost in &own.costs {
                    assert!(cost.asleep_ns > 0.0 && cost.spinning_ns > 0.0 && cost.per_packet_ns > 0.0);
                    assert!((1..=1 << 30).contains(&cost.bytes) && cost.bytes_per_s() > 0.0);
                }
            }
            // The calibration is of another machine, unless the fuzzer happens to describe this
            // one.
            let machine = calibration.machine();
            assert!(machine.differences(machine).is_empty());
            assert!(!machine.to_string().contains(char::is_control));
        }
        Err(problem) => assert!(!problem.is_empty() && !problem.contains(char::is_control)),
    }
});
