//! Components that print, record, join and transform streams.

use serde_json::Value;
use stripline::StreamInfo;
use stripline::payload::{Scalar, TypeName};
use stripline_components::formats::{RecordedPacket, RecordingInfo, RecordingWriter};

use super::bench::{Bench, wav};
use super::play;

const TYPES: [&str; 20] = [
    "u8", "u16", "u32", "u64", "s8", "s16", "s32", "s64", "f32", "f64", "cu8", "cu16", "cu32", "cu64", "cs8",
    "cs16", "cs32", "cs64", "cf32", "cf64",
];

pub fn samples_of_every_type_are_played_and_recorded() {
    let bench = Bench::new();
    for name in TYPES {
        let size = Scalar::parse(name).unwrap().size();
        // Use numbers that are finite, also as floating point.
        let bytes: Vec<u8> = (0..300 * size).map(|n| (n * 7 % 60) as u8).collect();
        std::fs::write(bench.path(&format!("a.{name}")), &bytes).unwrap();
        let output = format!("player.output={name}");
        let settings = [&*output, "player.repeat=3", "player.packet=77"];
        assert_eq!(play(&bench, &format!("a.{name}"), "b.out", &settings), bytes.repeat(3), "{name}");
    }
    // An incomplete sample is refused, and then left out.
    std::fs::write(bench.path("odd.f64"), [1; 20]).unwrap();
    let settings = ["player.output=f64", "player.truncate_partial=true"];
    assert_eq!(play(&bench, "odd.f64", "b.out", &settings), [1; 16]);
    let odd = || {
        let path = format!("player.path={}", bench.path("odd.f64").display());
        bench.text(super::PLAY).set(&path).set("recorder.path=b.out").set("player.output=f64")
    };
    odd().refused(&["4 of its 20 bytes are left over", "a f64 sample has 8", "truncate_partial"]);
    odd().set("player.format=cu8").refused(&["it holds cu8 samples, not f64", "`output` to \"cu8\""]);
    let whole = || odd().set("player.truncate_partial=true");
    whole().set("player.output=cf32").refused(&["odd.f64", "holds f64 samples", "to \"f64\", or to \"f32\""]);
    let sigmf = format!("recorder.path={}", bench.path("b.sigmf-meta").display());
    whole().set(&sigmf).run().ended();
    assert_eq!(std::fs::read(bench.path("b.sigmf-data")).unwrap(), [1; 16]);
}

pub fn packets_are_printed() {
    let bench = Bench::new();
    let run = |properties: &str| {
        let path = bench.path("lines.txt");
        let text = format!(
            r#"
            [component]
            source = {{ type = "null-source", properties = {{ packets = 5, packet = 3, output = "cs16" }} }}
            printer = {{ type = "print-sink", properties = {{ path = "{}", existing = "replace", {properties} }} }}
            [[connection]]
            from = "source"
            to = "printer"
            "#,
            path.display()
        );
        bench.text(&text).run().ended();
        std::fs::read_to_string(path).unwrap()
    };
    let expected = "stream out\n\
        packet 0 sample 0 (3 samples): (0, 0) (0, 0) …\n\
        packet 2 sample 6 (3 samples): (0, 0) (0, 0) …\n\
        packet 4 sample 12 (3 samples): (0, 0) (0, 0) …\n\
        the sender has ended\n";
    let found = run("samples = 2, every = 2");
    // The stream has the name of the port.
    assert_eq!(found.lines().skip(1).collect::<Vec<_>>(), expected.lines().skip(1).collect::<Vec<_>>());
    assert!(found.starts_with("stream "), "{found}");
    assert_eq!(run("packets = 1").lines().filter(|line| line.starts_with("packet ")).count(), 1);
    let lines = run("format = 'json'");
    let last = lines.lines().rfind(|line| line.contains("packet")).unwrap();
    let packet: Value = serde_json::from_str(last).unwrap();
    assert_eq!((&packet["sequence"], &packet["sample_index"]), (&4.into(), &12.into()));
    assert_eq!(packet["values"], serde_json::json!([[0, 0], [0, 0], [0, 0]]));
}

/// Returns the printed JSON lines of this event.
fn of(lines: &str, event: &str) -> Vec<Value> {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.filter(|line| line["event"] == event).collect()
}

pub fn structures_and_messages_are_printed() {
    let bench = Bench::new();
    let (lines, raw) = (bench.path("lines.txt"), bench.path("frames.raw"));
    let text = format!(
        r#"
        [component]
        source = {{ type = "adsb-source", properties = {{ duration_s = 0.5 }} }}
        demodulator = {{ type = "adsb-demodulator" }}
        decoder = {{ type = "adsb-decoder" }}
        printer = {{ type = "print-sink", properties = {{ path = "{}", format = "json", samples = 1000 }} }}
        recorder = {{ type = "file-sink", properties = {{ path = "{}" }} }}
        [[connection]]
        from = "source"
        to = "demodulator"
        [[connection]]
        from = "demodulator"
        to = "decoder"
        [[connection]]
        from = "decoder"
        to = "printer"
        [[connection]]
        from = "decoder"
        to = "recorder"
        "#,
        lines.display(),
        raw.display()
    );
    bench.text(&text).run().ended();
    let packets = of(&std::fs::read_to_string(&lines).unwrap(), "packet");
    let frames: Vec<&Value> =
        packets.iter().flat_map(|packet| packet["values"].as_array().unwrap()).collect();
    assert!(frames.len() > 3 && frames.iter().all(|frame| frame["sample"].is_u64()), "{packets:?}");
    let bytes: u64 = packets.iter().map(|packet| packet["bytes"].as_u64().unwrap()).sum();
    assert_eq!(std::fs::metadata(&raw).unwrap().len(), bytes);

    // The file has the message [1, "a"] twice.
    let path = bench.path("tune.slrec");
    let mut writer =
        RecordingWriter::create(&path, &RecordingInfo::new(TypeName::message("tune").unwrap())).unwrap();
    for sequence in 0..2 {
        let packet = RecordedPacket { sequence, sample_index: 0, time_ns: 0, received_ns: 0 };
        writer.packet(&packet, &[0x82, 0x01, 0x61, b'a']).unwrap();
    }
    writer.finish().unwrap();
    let text = format!(
        r#"
        [component]
        tuner = {{ type = "replay", properties = {{ path = "{}", type = "message/tune" }} }}
        printer = {{ type = "print-sink", properties = {{ path = "{}", existing = "replace" }} }}
        [[connection]]
        from = "tuner"
        to = "printer"
        "#,
        path.display(),
        lines.display()
    );
    bench.text(&text).run().ended();
    let found = std::fs::read_to_string(&lines).unwrap();
    assert_eq!(found.matches(r#": [1,"a"]"#).count(), 2, "{found}");
    let recorded = text.replace("print-sink", "file-sink");
    bench.text(&recorded).run().failed(&["messages have no samples", "message/tune", "`print-sink`"]);
}

/// Plays a thousand samples from index 0 on, and a thousand from index 1501 on, through a
/// component. Returns the index, time and values of each packet.
fn with_gap(component: &str) -> Vec<(u64, i64, Vec<f64>)> {
    let bench = Bench::new();
    let (path, lines) = (bench.path("gap.slrec"), bench.path("lines.txt"));
    let mut writer = RecordingWriter::create(&path, &RecordingInfo::new(TypeName::of::<f32>())).unwrap();
    writer.stream(&StreamInfo::new("levels").sample_rate_hz(1e3)).unwrap();
    for (sequence, index) in [(0, 0), (3, 1501)] {
        if index > 0 {
            let reason = stripline::GapReason::Overflow;
            writer.gap(&stripline::Gap { first: 1, packets: 2, samples: 501, reason }).unwrap();
        }
        // A sample takes a millisecond. The first one is one second after the epoch.
        let time_ns = 1_000_000_000 + 1_000_000 * index as i64;
        let packet = RecordedPacket { sequence, sample_index: index, time_ns, received_ns: 0 };
        writer.packet(&packet, &floats(std::iter::repeat_n(1.0, 1000))).unwrap();
    }
    writer.finish().unwrap();
    let text = format!(
        r#"
        [component]
        levels = {{ type = "replay", properties = {{ path = "{}", type = "f32", speed = 0 }} }}
        stage = {component}
        printer = {{ type = "print-sink", properties = {{ path = "{}", format = "json", samples = 10_000 }} }}
        [[connection]]
        from = "levels"
        to = "stage.in"
        [[connection]]
        from = "stage"
        to = "printer"
        "#,
        path.display(),
        lines.display()
    );
    bench.text(&text).run().ended();
    let packets = of(&std::fs::read_to_string(&lines).unwrap(), "packet");
    let value = |packet: &Value| {
        let values = packet["values"].as_array().unwrap().iter().map(|value| value.as_f64().unwrap());
        (packet["sample_index"].as_u64().unwrap(), packet["time_ns"].as_i64().unwrap(), values.collect())
    };
    packets.iter().map(value).collect()
}

pub fn index_and_time_are_right_behind_a_gap() {
    // The packets are passed on as recorded.
    let packets = with_gap("{ type = 'throttle', properties = { rate = 1e9 } }");
    let found: Vec<_> = packets.iter().map(|(index, time, values)| (*index, *time, values.len())).collect();
    assert_eq!(found, [(0, 1_000_000_000, 1000), (1501, 2_501_000_000, 1000)]);
    let packets = with_gap("{ type = 'resampler', properties = { up = 3, down = 2 } }");
    // The times are earlier by the delay of the filter.
    let delay = 1_000_000_000 - packets[0].1;
    assert!((10_000_000..1_000_000_000).contains(&delay), "{delay}");
    let found: Vec<_> =
        packets.iter().map(|(index, time, values)| (*index, *time + delay, values.len())).collect();
    // Output sample 2252 is at input sample 1501 1/3, to a nanosecond.
    assert_eq!(found[0], (0, 1_000_000_000, 1500));
    assert_eq!((found[1].0, found[1].2), (2252, 1500));
    assert!((found[1].1 - 2_501_333_333).abs() <= 1, "{found:?}");
    for (index, _, values) in &packets {
        assert!(values[0].abs() < 0.1, "from silence at {index}: {}", values[0]);
        assert!((values[1400] - 1.0).abs() < 1e-3, "{}", values[1400]);
    }

    let packets = with_gap("{ type = 'fft', properties = { size = 100, window = 'rectangular' } }");
    let rows: Vec<u64> = (0..10).chain(16..25).collect();
    assert_eq!(packets.len(), rows.len());
    for (row, (index, time, values)) in rows.iter().zip(&packets) {
        assert_eq!((*index, *time), (51 * row, 1_000_000_000 + 100_000_000 * *row as i64));
        assert!(values.len() == 51 && values[0].abs() < 1e-4 && values[1] < -90.0, "{values:?}");
    }
}

/// Joins two files of a type with a component. Returns the output.
fn joined(bench: &Bench, of: &str, component: &str, parts: [&[u8]; 2], packets: [usize; 2]) -> Vec<u8> {
    for (name, bytes) in ["one.in", "two.in"].into_iter().zip(parts) {
        std::fs::write(bench.path(name), bytes).unwrap();
    }
    let player = |name: &str, packet: usize| {
        format!(
            "{name} = {{ type = 'file-source', properties = {{ path = '{}', output = '{of}', packet = {packet}, \
             sample_rate = 1000 }} }}\n",
            bench.path(&format!("{name}.in")).display()
        )
    };
    let text = format!(
        "[component]\n{}{}join = {component}\n\
         recorder = {{ type = 'file-sink', properties = {{ path = '{}', existing = 'replace' }} }}\n\
         [[connection]]\nfrom = 'one'\nto = 'join.in1'\n\
         [[connection]]\nfrom = 'two'\nto = 'join.in4'\n\
         [[connection]]\nfrom = 'two'\nto = 'join.in2'\n\
         [[connection]]\nfrom = 'join'\nto = 'recorder'\n",
        player("one", packets[0]),
        player("two", packets[1]),
        bench.path("joined.out").display()
    );
    bench.text(&text).run().ended();
    std::fs::read(bench.path("joined.out")).unwrap()
}

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

pub fn streams_are_added() {
    let bench = Bench::new();
    let one = floats((0..5000u16).map(f32::from));
    let two = floats((0..4000u16).map(|n| f32::from(n) / 4.0));
    let sum = |until: &str| {
        let component = format!("{{ type = 'adder', properties = {{ until = '{until}' }} }}");
        joined(&bench, "f32", &component, [&one, &two], [777, 1000])
    };
    // The second stream is connected twice.
    let expected =
        |count: u16| floats((0..count).map(|n| if n < 4000 { 1.5 * f32::from(n) } else { n.into() }));
    assert_eq!(sum("first"), expected(4000));
    assert_eq!(sum("last"), expected(5000));
    let text = r#"
        [component]
        slow = { type = "signal-generator", properties = { sample_rate = 48e3 } }
        fast = { type = "signal-generator", properties = { sample_rate = 96e3 } }
        sum = { type = "adder" }
        sink = { type = "null-sink" }
        [[connection]]
        from = "slow"
        to = "sum.in1"
        [[connection]]
        from = "fast"
        to = "sum.in2"
        [[connection]]
        from = "sum"
        to = "sink"
    "#;
    bench.text(text).refused(&["sum", "96000 samples/s", "48000", "`resampler`"]);
}

pub fn streams_are_interleaved_and_merged() {
    let bench = Bench::new();
    let one: Vec<u8> = (0..1200u32).map(|n| (n % 100) as u8).collect();
    let two: Vec<u8> = (0..1200u32).map(|n| 100 + (n % 100) as u8).collect();
    let interleaved = "{ type = 'multiplexer', properties = { mode = 'interleave', block = 3 } }";
    let found = joined(&bench, "s16", interleaved, [&one, &two], [70, 101]);
    // Blocks of three samples of two bytes, from `one`, `two` and `two`.
    let expected: Vec<u8> =
        one.chunks(6).zip(two.chunks(6)).flat_map(|(one, two)| [one, two, two].concat()).collect();
    assert_eq!(found, expected);

    let merged = joined(&bench, "s16", "{ type = 'multiplexer' }", [&one, &two], [70, 101]);
    assert_eq!(merged.len(), 3600);
    assert_eq!(merged.iter().filter(|byte| **byte < 100).copied().collect::<Vec<_>>(), one);

    let text = |mode: &str| {
        format!(
            r#"
            [component]
            one = {{ type = "null-source", properties = {{ packets = 3 }} }}
            two = {{ type = "null-source", properties = {{ packets = 3 }} }}
            join = {{ type = "multiplexer", properties = {{ {mode} }} }}
            sink = {{ type = "wav-sink", properties = {{ path = "x.wav" }} }}
            [[connection]]
            from = "one"
            to = "{}"
            [[connection]]
            from = "two"
            to = "{}"
            [[connection]]
            from = "join"
            to = "sink"
            "#,
            if mode.is_empty() { "sink" } else { "join.in1" },
            if mode.is_empty() { "sink" } else { "join.in2" },
        )
    };
    bench.text(&text("")).refused(&["packets of one writer only", "`multiplexer`"]);
    bench.text(&text("block = 2")).refused(&["`block` is 2", "mode = \"interleave\""]);
}

pub fn a_tone_keeps_its_frequency_at_another_rate() {
    let bench = Bench::new();
    let text = format!(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = {{ output = "f32", frequency = 1e3, sample_rate = 48e3, duration_s = 0.5, packet = 997 }}
        [component.resampler]
        type = "resampler"
        properties = {{ up = 147, down = 160 }}
        [component.speaker]
        type = "wav-sink"
        properties = {{ path = "{}", encoding = "float32" }}
        [[connection]]
        from = "tone"
        to = "resampler"
        [[connection]]
        from = "resampler"
        to = "speaker"
        "#,
        bench.path("tone.wav").display()
    );
    bench.text(&text).run().ended();
    let (rate, audio) = wav(&bench.path("tone.wav"));
    assert_eq!((rate, audio.len()), (44_100, 22_050));
    // A tone of 1 kHz has 450 periods in the settled 0.45 s.
    let settled = &audio[2205..];
    let crossings = settled.windows(2).filter(|two| two[0] < 0.0 && two[1] >= 0.0).count();
    assert!(crossings.abs_diff(450) <= 1, "{crossings} periods");
    let peak = settled.iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
    assert!((peak - 1.0).abs() < 0.01, "{peak}");
    let steep = bench.text(&text).set("resampler.bandwidth=0.99");
    steep.refused(&["resampler", "taps", "lower `bandwidth`"]);
}

pub fn a_tone_is_found_in_its_bin() {
    let bench = Bench::new();
    let lines = bench.path("rows.txt");
    let text = format!(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = {{ frequency = 6e3, amplitude = 0.1, sample_rate = 48e3, duration_s = 0.1, packet = 100 }}
        [component.spectra]
        type = "fft"
        properties = {{ size = 64, overlap = 0.5, average = 10 }}
        [component.printer]
        type = "print-sink"
        properties = {{ path = "{}", format = "json", samples = 64 }}
        [[connection]]
        from = "tone"
        to = "spectra"
        [[connection]]
        from = "spectra"
        to = "printer"
        "#,
        lines.display()
    );
    bench.text(&text).run().ended();
    let lines = std::fs::read_to_string(lines).unwrap();
    let stream = &of(&lines, "stream")[0]["stream"];
    assert_eq!((&stream["row_length"], &stream["axes"][0]["step"]), (&64.into(), &750.0.into()));
    // 4800 samples give rows of ten spectra, each 32 samples after the previous one. The last row
    // is incomplete.
    let rows = of(&lines, "packet");
    assert_eq!(rows.len(), 14);
    for (row, packet) in rows.iter().enumerate() {
        assert_eq!(packet["sample_index"], 64 * row);
        let levels: Vec<f64> =
            packet["values"].as_array().unwrap().iter().map(|level| level.as_f64().unwrap()).collect();
        let highest = (0..64).max_by(|a, b| levels[*a].total_cmp(&levels[*b])).unwrap();
        // 6 kHz is eight bins above the middle.
        assert_eq!(highest, 40);
        assert!((levels[40] + 20.0).abs() < 0.01, "{}", levels[40]);
        assert!(levels[10] < -100.0, "{}", levels[10]);
    }
    bench.text(&text).set("spectra.output=cf32").refused(&["`average` is 10", "output = \"f32\""]);
    bench.text(&text).set("spectra.size=1").refused(&["`size` is 1", "from 2"]);
}

pub fn the_spectrum_waveform_draws_its_station() {
    let bench = Bench::new();
    let path = format!("waterfall.path={}", bench.path("w.png").display());
    let job = bench.file("spectrum.toml").set("station.rate=0").set("waterfall.terminal=false");
    job.set("waterfall.low=-90").set("waterfall.high=0").set(&path).run().ended();
    let file = std::io::BufReader::new(std::fs::File::open(bench.path("w.png")).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    // 1024 bins, 49 rows of five pixels, and space for the labels.
    assert!(info.width > 1024 && info.height > 49 * 5, "{info:?}");
    let brightness = |x: usize, y: usize| {
        let at = (y * info.width as usize + x) * 3;
        pixels[at..at + 3].iter().map(|value| u32::from(*value)).sum::<u32>()
    };
    // The station fills the middle of the band, and the edges are noise.
    let mean = |from: usize| (from..from + 50).map(|x| brightness(x, 100)).sum::<u32>() / 50;
    let (middle, edge) = (mean(72 + 487), mean(72 + 20));
    assert!(middle > edge + 50, "{middle} in the middle, {edge} at the edge");
    // If there is no row, no picture is written.
    let path = format!("waterfall.path={}", bench.path("none.png").display());
    let job = bench.file("spectrum.toml").set("station.rate=0").set("waterfall.terminal=false");
    job.set("spectra.average=4096").set("station.duration_s=0.1").set(&path).run().ended();
    assert!(!bench.path("none.png").exists());
    let plain = r#"
        [component]
        tone = { type = "signal-generator", properties = { output = "f32" } }
        waterfall = { type = "waterfall-sink" }
        [[connection]]
        from = "tone"
        to = "waterfall"
    "#;
    bench.text(plain).refused(&["`waterfall` takes rows of samples", "put an `fft` before it"]);
}
