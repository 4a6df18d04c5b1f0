//! Descriptions of BulkIO streams and BulkIO times, as CORBA programs send them.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use stripline_middleware::internal::{BulkioSri, BulkioTime, BulkioValue};
use stripline_fuzz as _; // for the allocator

fuzz_target!(|data: &[u8]| {
    let mut input = Unstructured::new(data);
    // If the input ends early, the remaining fields are zero or empty, and the keywords end.
    let Ok((sri, is_complex)) = description(&mut input) else { return };
    if let Ok(info) = sri.parse(is_complex) {
        assert!(info.sample_rate_hz.is_none_or(|rate| rate.is_finite() && rate > 0.0));
        assert!(info.center_frequency_hz.is_none_or(f64::is_finite));
        let sent = BulkioSri::of(&info, is_complex);
        assert!(sent.parse(is_complex).is_ok(), "a forwarded description is refused: {sent:?}");
    }
    let Ok(time) = time(&mut input) else { return };
    if let Some(time_ns) = time.time_ns() {
        let back = BulkioTime::of(Some(time_ns)).time_ns().expect("a valid time");
        assert_eq!(back, time_ns, "a time is sent on as another");
    }
});

fn description(input: &mut Unstructured<'_>) -> Result<(BulkioSri, bool)> {
    let is_complex = input.arbitrary()?;
    let mut sri = BulkioSri {
        mode: i16::from(is_complex),
        xstart: input.arbitrary()?,
        xdelta: input.arbitrary()?,
        xunits: input.arbitrary()?,
        subsize: input.arbitrary()?,
        ystart: input.arbitrary()?,
        ydelta: input.arbitrary()?,
        yunits: input.arbitrary()?,
        ..BulkioSri::unknown(input.arbitrary()?, is_complex)
    };
    if input.ratio(1, 16)? {
        sri.mode = input.arbitrary()?;
    }
    while let (true, false) = (input.arbitrary()?, input.is_empty()) {
        let name: &str = match input.int_in_range(0..=3)? {
            0 => "CHAN_RF",
            1 => "COL_RF",
            _ => input.arbitrary()?,
        };
        let value = match input.int_in_range(0..=3)? {
            0 => BulkioValue::Number(input.arbitrary()?),
            1 => BulkioValue::Whole(input.arbitrary()?),
            2 => BulkioValue::Truth(input.arbitrary()?),
            _ => BulkioValue::Text(input.arbitrary()?),
        };
        sri.keywords.push((name.into(), value));
    }
    Ok((sri, is_complex))
}

fn time(input: &mut Unstructured<'_>) -> Result<BulkioTime> {
    Ok(BulkioTime {
        mode: input.arbitrary()?,
        status: input.arbitrary::<bool>()?.into(),
        offset: input.arbitrary()?,
        whole: input.arbitrary()?,
        fraction: input.arbitrary()?,
    })
}
