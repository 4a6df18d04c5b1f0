//! Times in UTC, as text of ISO 8601.

use std::time::SystemTime;

use stripline::internal::rfc3339;

const DAY_S: i64 = 86_400;

/// Returns the time as SigMF requires it: ISO 8601 in UTC with microseconds. Times before 1970
/// become 1970.
///
/// ```
/// use std::time::{Duration, UNIX_EPOCH};
/// use stripline_components::formats::utc_datetime;
///
/// let time = UNIX_EPOCH + Duration::from_micros(1_709_210_096_000_250);
/// assert_eq!(utc_datetime(time), "2024-02-29T12:34:56.000250Z");
/// ```
pub fn utc_datetime(time: SystemTime) -> String {
    rfc3339(time)
}

/// Returns the nanoseconds from 1970 to a time in ISO 8601, such as `2024-02-29T12:34:56.5Z`. A
/// time without `Z` or an offset such as `+01:00` is in UTC. `None`: the text is no such time, or
/// the nanoseconds do not fit in 64 bits.
///
/// ```
/// use stripline_components::formats::utc_ns;
///
/// assert_eq!(utc_ns("1970-01-02T00:00:00.000001Z"), Some(86_400_000_001_000));
/// assert_eq!(utc_ns("1970-01-02T01:00:00+01:00"), Some(86_400_000_000_000));
/// assert_eq!(utc_ns("yesterday"), None);
/// ```
pub fn utc_ns(text: &str) -> Option<i64> {
    let (date, time) = text.trim().split_once(['T', 't', ' '])?;
    let (time, offset_s) = without_offset(time)?;
    let [year, month, day] = numbers(date, '-')?;
    let (clock, fraction) = time.split_once(['.', ',']).unwrap_or((time, ""));
    let [hour, minute, second] = numbers(clock, ':')?;
    // The digits beyond nanoseconds are dropped.
    let digits = fraction.get(..9).unwrap_or(fraction);
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let nanos = format!("{digits:0<9}").parse().ok()?;
    let seconds = seconds_of([year, month, day, hour, minute, second])?.checked_sub(offset_s)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Returns the seconds from 1970 to year, month, day, hour, minute and second in UTC. The second
/// may be 60, for a leap second.
pub(super) fn seconds_of([year, month, day, hour, minute, second]: [i64; 6]) -> Option<i64> {
    let is_leap_year = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let last_day = match month {
        2 => 28 + i64::from(is_leap_year),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    let is_time = (0..24).contains(&hour) && (0..60).contains(&minute) && (0..=60).contains(&second);
    if !(0..=9999).contains(&year) || !(1..=last_day).contains(&day) || !is_time {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let days = era * 146_097 + day_of_era - 719_468;
    Some(days * DAY_S + hour * 3600 + minute * 60 + second)
}

/// Returns a time of day without its offset from UTC, and the offset in seconds.
fn without_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let Some(at) = time.rfind(['+', '-']) else { return Some((time, 0)) };
    let (time, offset) = time.split_at(at);
    let sign = if offset.starts_with('-') { -1 } else { 1 };
    let digits: String = offset[1..].chars().filter(|c| *c != ':').collect();
    let number = |part: Option<&str>| part?.parse::<i64>().ok();
    let (hours, minutes) =
        (number(digits.get(..2))?, number(digits.get(2..).filter(|m| m.len() == 2)).unwrap_or(0));
    (hours < 24 && minutes < 60).then_some((time, sign * (hours * 3600 + minutes * 60)))
}

/// Returns three numbers that consist of digits only, separated by a character.
fn numbers(text: &str, between: char) -> Option<[i64; 3]> {
    let number = |part: &str| {
        let is_number =
            !part.is_empty() && part.len() <= 4 && part.bytes().all(|digit| digit.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    let mut parts = text.split(between);
    let three = [number(parts.next()?)?, number(parts.next()?)?, number(parts.next()?)?];
    parts.next().is_none().then_some(three)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn datetimes_are_right_around_leap_days() {
        let at = |seconds| utc_datetime(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(at(951_782_399), "2000-02-28T23:59:59.000000Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00.000000Z");
        assert_eq!(at(951_868_800), "2000-03-01T00:00:00.000000Z");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59.000000Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00.000000Z");
    }

    #[test]
    fn times_are_read_in_the_forms_of_other_programs() {
        let first = 1_709_251_200_000_000_000;
        for (text, ns) in [
            ("2024-03-01T00:00:00.006000Z", first + 6_000_000),
            ("2024-03-01T00:00:00Z", first),
            ("2024-03-01 00:00:00", first),
            ("2024-02-29T23:00:00-0100", first),
            ("2024-03-01T00:00:00.1234567899Z", first + 123_456_789),
            ("1969-12-31T23:59:59.5Z", -500_000_000),
        ] {
            assert_eq!(utc_ns(text), Some(ns), "{text}");
        }
        for wrong in [
            "",
            "2024",
            "2024-02-30T00:00:00Z",
            "2024-13-01T00:00:00Z",
            "2024-03-01T24:00:00Z",
            "T",
            "é-é-éTé",
            "2024-03-01T00:00:00.5xZ",
            "9999-01-01T00:00:00Z",
            "2024-03-01T00:00Z",
            "2024-03-01T00:00:00+é",
            "2024-03-01T00:00:00+99:00",
            "-024-03-01T00:00:00Z",
        ] {
            assert_eq!(utc_ns(wrong), None, "{wrong}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn what_is_written_is_read(micros in 0u64..9_000_000_000_000_000) {
            let text = utc_datetime(UNIX_EPOCH + Duration::from_micros(micros));
            prop_assert_eq!(utc_ns(&text), Some(micros as i64 * 1000));
        }

        #[test]
        fn any_text_is_a_time_or_none(text in "[0-9TZ:.+ -]{0,30}|\\PC{0,30}") {
            let _ = utc_ns(&text);
        }
    }
}
