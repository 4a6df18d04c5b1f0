//! Synonyms of keys: users often write a key of one component or file in place of a key of another.

use super::text::{listed, suggestion};

/// Names for the same thing. In each group the names of keys and properties come first, the most
/// likely ones at the front. The names that other programs use come after them.
const SYNONYMS: [&[&str]; 22] = [
    &[
        "sample_rate",
        "rate",
        "samp_rate",
        "sampling_rate",
        "sample_rate_hz",
        "rate_hz",
        "fs",
        "samplerate",
        "samplingrate",
        "srate",
        "sample_frequency",
        "sampling_frequency",
        "samples_per_second",
    ],
    &[
        "frequency",
        "freq",
        "frequency_hz",
        "center_frequency",
        "centre_frequency",
        "offset",
        "carrier",
        "tone",
    ],
    &[
        "size",
        "packet",
        "packet_size",
        "bytes",
        "fft_size",
        "nfft",
        "points",
        "length",
        "block",
        "window_size",
    ],
    &["packet", "packet_size", "block", "block_size", "chunk", "chunk_size", "samples"],
    &["packets", "count", "num_packets", "limit"],
    &["path", "file", "filename", "file_name", "filepath"],
    &["format", "output", "encoding", "dtype", "sample_format", "sample_type", "data_type"],
    &["output", "type", "dtype", "sample_type", "out_type"],
    &["high", "cutoff", "upper", "stop", "bandwidth", "high_cutoff"],
    &["low", "lower", "start", "low_cutoff"],
    &["factor", "down", "decimation", "ratio", "decim"],
    &["up", "interpolation", "interp"],
    &["amplitude", "gain", "power", "level", "volume"],
    &["repeat", "loop", "repetitions", "cycles", "repeats"],
    &["duration_s", "duration", "seconds", "time_s", "until"],
    &["type", "kind", "class", "component"],
    &["exec", "executable", "program", "command", "binary"],
    &["cpu", "cpus", "core", "cores", "affinity", "processor", "processors"],
    &["from", "source", "src", "sender", "output"],
    &["to", "sink", "dst", "dest", "destination", "target", "receiver", "input"],
    &["depth", "queue", "queue_size", "queue_depth", "capacity", "history"],
    &["overflow", "policy", "on_full", "drop", "reliability"],
];

/// Returns the key that an unknown key probably means: an existing key with the same meaning or a
/// similar spelling.
///
/// ```
/// use stripline_waveform::internal::meant_key;
///
/// assert_eq!(meant_key("sample_rate", ["path", "rate"]), Some("rate"));
/// assert_eq!(meant_key("pth", ["path", "rate"]), Some("path"));
/// assert_eq!(meant_key("colour", ["path", "rate"]), None);
/// ```
pub fn meant_key<'a>(name: &str, keys: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    let plain = |text: &str| text.to_lowercase().replace('-', "_");
    let wanted = plain(name);
    // The same key in another notation has precedence over another key of the same meaning.
    let alike = keys.clone().into_iter().find(|key| plain(key) == wanted);
    let groups = SYNONYMS.iter().filter(|group| group.contains(&wanted.as_str()));
    let same = || groups.flat_map(|group| group.iter());
    let meaning = || same().find_map(|word| keys.clone().into_iter().find(|key| plain(key) == *word));
    alike.or_else(meaning).or_else(|| suggestion(name, keys.clone()))
}

/// Returns the remedy for an unknown key: the key that was probably meant, or a list of all keys.
pub fn did_you_mean_key<'a>(
    name: &str,
    keys: impl IntoIterator<Item = &'a str> + Clone,
    there_is: &str,
) -> String {
    match meant_key(name, keys.clone()) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None if keys.clone().into_iter().next().is_none() => String::new(),
        None => format!("{there_is} {}", listed(keys, "and")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_same_meaning_comes_before_one_that_is_written_alike() {
        for (name, keys, meant) in [
            ("sample_rate", &["rate"][..], Some("rate")),
            ("rate", &["low", "sample_rate"], Some("sample_rate")),
            ("samp_rate", &["rate", "sample_rate"], Some("sample_rate")),
            ("Sample-Rate", &["rate", "sample_rate"], Some("sample_rate")),
            // `rate` is the pace here, although it is spelt more like `srate`.
            ("srate", &["rate", "sample_rate"], Some("sample_rate")),
            ("sampling-frequency", &["frequency", "rate", "sample_rate"], Some("sample_rate")),
            ("cutoff", &["low", "high"], Some("high")),
            ("file", &["path", "format"], Some("path")),
            ("fft_size", &["output", "size"], Some("size")),
            ("source", &["from", "to", "scope"], Some("from")),
            ("cores", &["type", "cpu"], Some("cpu")),
            ("queue-size", &["depth", "flow"], Some("depth")),
            ("amplitud", &["amplitude", "offset"], Some("amplitude")),
            ("frequency", &["path"], None),
        ] {
            assert_eq!(meant_key(name, keys.iter().copied()), meant, "{name}");
        }
    }

    #[test]
    fn a_group_has_no_name_twice() {
        for group in SYNONYMS {
            let mut names = group.to_vec();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), group.len(), "{group:?}");
            assert!(names.iter().all(|name| !name.contains('-')), "{group:?}");
        }
    }
}
