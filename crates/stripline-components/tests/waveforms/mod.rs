//! The tests of `components.rs`.

mod ages;
mod bench;
mod files;
mod parent;
mod streams;

use std::f64::consts::TAU;
use std::path::Path;
use std::time::Duration;

use num_complex::Complex;
use stripline_components::adsb::{
    Decoder, DecoderConfig, Demodulator, DemodulatorConfig, Simulation, SimulationConfig,
};
use stripline_components::dsp::FmStation;
use stripline_components::formats::{IqFileReader, IqReaderOptions, SampleFormat};

use ages::{Aging, Stamping};
use bench::{Bench, wav};
use parent::{Parent, inherited};
use stripline::component::Registry;

/// Returns the stock components, and the components of these tests.
pub fn registry() -> Registry {
    stripline_components::registry().with::<Parent>().with::<Stamping>().with::<Aging>()
}

/// All tests, by name.
pub const TESTS: &[(&str, fn())] = &[
    ("the_fm_waveform_plays_the_tune", the_fm_waveform_plays_the_tune),
    ("the_adsb_waveform_finds_what_its_parts_find", the_adsb_waveform_finds_what_its_parts_find),
    ("adsb_frames_do_not_depend_on_packets_or_formats", adsb_frames_do_not_depend_on_packets_or_formats),
    ("a_simulated_sky_keeps_time", a_simulated_sky_keeps_time),
    ("recordings_are_played_and_recorded_as_they_are", recordings_are_played_and_recorded_as_they_are),
    ("recordings_are_converted", recordings_are_converted),
    ("sigmf_metadata_travel_with_the_samples", sigmf_metadata_travel_with_the_samples),
    ("am_is_demodulated", am_is_demodulated),
    ("the_magnitude_of_a_sine_is_its_amplitude", the_magnitude_of_a_sine_is_its_amplitude),
    ("a_filter_passes_its_band", a_filter_passes_its_band),
    ("noise_has_the_power_asked_for", noise_has_the_power_asked_for),
    ("throttle_and_tee_pass_on_what_they_get", throttle_and_tee_pass_on_what_they_get),
    ("zeros_are_counted", zeros_are_counted),
    ("a_stopped_sink_finishes_its_file", a_stopped_sink_finishes_its_file),
    ("a_child_of_a_component_inherits_nothing", a_child_of_a_component_inherits_nothing),
    ("a_full_disk_is_an_error", a_full_disk_is_an_error),
    ("mistakes_are_told_with_a_remedy", mistakes_are_told_with_a_remedy),
    ("samples_of_every_type_are_played_and_recorded", streams::samples_of_every_type_are_played_and_recorded),
    ("packets_are_printed", streams::packets_are_printed),
    ("a_partial_frame_before_another_file_is_counted", files::a_partial_frame_before_another_file_is_counted),
    ("a_loss_behind_the_last_packet_is_noted", files::a_loss_behind_the_last_packet_is_noted),
    ("a_sink_without_a_packet_reports_that", files::a_sink_without_a_packet_reports_that),
    ("a_rate_that_wav_cannot_have_is_an_error", files::a_rate_that_wav_cannot_have_is_an_error),
    ("a_rate_with_a_fraction_is_noted", files::a_rate_with_a_fraction_is_noted),
    ("a_packet_without_a_file_is_counted", files::a_packet_without_a_file_is_counted),
    ("samples_from_a_pipe_reach_the_run", files::samples_from_a_pipe_reach_the_run),
    (
        "channels_that_take_turns_in_rows_are_refused_before_a_file_is_written",
        files::channels_that_take_turns_in_rows_are_refused_before_a_file_is_written,
    ),
    ("rows_that_are_not_drawn_are_counted", files::rows_that_are_not_drawn_are_counted),
    ("a_name_of_another_format_is_refused", files::a_name_of_another_format_is_refused),
    ("a_data_file_that_is_read_is_not_written", files::a_data_file_that_is_read_is_not_written),
    ("structures_and_messages_are_printed", streams::structures_and_messages_are_printed),
    ("a_planted_delay_is_named_at_its_place", ages::a_planted_delay_is_named_at_its_place),
    ("index_and_time_are_right_behind_a_gap", streams::index_and_time_are_right_behind_a_gap),
    ("streams_are_added", streams::streams_are_added),
    ("streams_are_interleaved_and_merged", streams::streams_are_interleaved_and_merged),
    ("a_tone_keeps_its_frequency_at_another_rate", streams::a_tone_keeps_its_frequency_at_another_rate),
    ("a_tone_is_found_in_its_bin", streams::a_tone_is_found_in_its_bin),
    ("the_spectrum_waveform_draws_its_station", streams::the_spectrum_waveform_draws_its_station),
];

fn the_fm_waveform_plays_the_tune() {
    let bench = Bench::new();
    let speaker = format!("speaker.path={}", bench.path("tune.wav").display());
    for transport in ["shm", "tcp"] {
        bench
            .file("fm.toml")
            .set(&speaker)
            .set("speaker.existing=replace")
            .transport(transport)
            .run()
            .ended();
        let (rate, audio) = wav(&bench.path("tune.wav"));
        assert_eq!((rate, audio.len()), (48_000, 8 * 48_000));
        // A beat lasts 250 ms, and the shortest note half a beat.
        for beat in 0..31 {
            let at = 0.25 * f64::from(beat) + 0.01;
            let start = (at * 48e3) as usize;
            let part = &audio[start..start + 4_800];
            let (tone, _) = FmStation::tone_at(at);
            let turning = part
                .iter()
                .enumerate()
                .map(|(n, x)| Complex::from_polar(f64::from(*x), -TAU * tone * n as f64 / 48e3));
            let of_tone = 2.0 * turning.sum::<Complex<f64>>().norm_sqr() / part.len() as f64;
            let of_all: f64 = part.iter().map(|x| f64::from(x * x)).sum();
            assert!(of_tone > 0.8 * of_all, "{at} s: {tone} Hz has {of_tone} of {of_all}");
        }
        assert!(audio.iter().all(|sample| sample.abs() < 1.0));
    }
}

/// Returns the frames of two simulated seconds, without any component.
fn frames_of_simulation() -> String {
    let mut simulation = Simulation::new(SimulationConfig::default());
    let mut samples = vec![Complex::new(0u8, 0); 4_000_000];
    simulation.fill_cu8(&mut samples);
    let mut candidates = Vec::new();
    let mut demodulator = Demodulator::new(DemodulatorConfig::default());
    demodulator.push(&samples, |candidate| candidates.push(candidate));
    demodulator.finish(|candidate| candidates.push(candidate));
    let mut decoder = Decoder::new(DecoderConfig::default());
    let frames = candidates.iter().filter_map(|candidate| decoder.decode(candidate));
    frames.map(|accepted| format!("{}\n", accepted.frame)).collect()
}

fn the_adsb_waveform_finds_what_its_parts_find() {
    let bench = Bench::new();
    let sink = format!("sink.path={}", bench.path("frames.avr").display());
    bench
        .file("adsb.toml")
        .set("source.duration_s=2")
        .set("source.rate=0")
        .set(&sink)
        .set("sink.table=false")
        .run()
        .ended();
    let frames = std::fs::read_to_string(bench.path("frames.avr")).unwrap();
    assert!(frames.lines().count() > 50, "{frames}");
    assert_eq!(frames, frames_of_simulation());
}

fn adsb_frames_do_not_depend_on_packets_or_formats() {
    let bench = Bench::new();
    let sink = format!("sink.path={}", bench.path("frames.avr").display());
    let run = |format: &str, packet: &str| {
        bench
            .file("adsb.toml")
            .set("source.duration_s=2")
            .set("source.rate=0")
            .set(format)
            .set(packet)
            .set(&sink)
            .set("sink.existing=replace")
            .set("sink.table=false")
            .threads()
            .run()
            .ended();
        std::fs::read_to_string(bench.path("frames.avr")).unwrap()
    };
    let reference = frames_of_simulation();
    assert_eq!(run("source.format=cu8", "source.packet=1000"), reference);
    for format in ["source.format=cs8", "source.format=cs16", "source.format=cf32"] {
        let frames = run(format, "source.packet=65536");
        // Samples of finer resolution have less noise, so a few frames may differ.
        let (found, expected) = (frames.lines().count() as i64, reference.lines().count() as i64);
        assert!((found - expected).abs() <= 3, "{format}: {found}, not {expected}");
    }
}

fn a_simulated_sky_keeps_time() {
    let bench = Bench::new();
    let report = bench.file("adsb.toml").set("source.duration_s=0.5").set("sink.table=false").run().ended();
    // The run is not faster than real time. The delay beyond that depends on the machine.
    assert!(report.duration_s >= 0.49, "{} s", report.duration_s);
}

const PLAY: &str = r#"
    [component.player]
    type = "file-source"
    [component.recorder]
    type = "file-sink"
    [[connection]]
    from = "player"
    to = "recorder"
"#;

fn play(bench: &Bench, from: &str, to: &str, settings: &[&str]) -> Vec<u8> {
    let (path, target) = (bench.path(from), bench.path(to));
    let mut waveform = bench
        .text(PLAY)
        .set(&format!("player.path={}", path.display()))
        .set(&format!("recorder.path={}", target.display()))
        .set("recorder.existing=replace");
    for setting in settings {
        waveform = waveform.set(setting);
    }
    waveform.run().ended();
    std::fs::read(target.with_extension(if to.contains("sigmf") { "sigmf-data" } else { "out" })).unwrap()
}

fn recordings_are_played_and_recorded_as_they_are() {
    let bench = Bench::new();
    let bytes: Vec<u8> = (0..40_000u32).map(|n| (n * 7 % 251) as u8).collect();
    for format in SampleFormat::ALL {
        let (name, output) = (format!("a.{format}"), format!("player.output={format}"));
        std::fs::write(bench.path(&name), &bytes).unwrap();
        let recorded = play(&bench, &name, "b.out", &[&output, "player.repeat=3", "player.packet=777"]);
        assert_eq!(recorded, bytes.repeat(3), "{format}");
    }
    // A file with an incomplete sample is refused, and then played with `truncate_partial`.
    std::fs::write(bench.path("odd.cs16"), [1; 11]).unwrap();
    let settings = ["player.output=cs16", "player.truncate_partial=true"];
    assert_eq!(play(&bench, "odd.cs16", "b.out", &settings), [1; 8]);
}

fn recordings_are_converted() {
    let bench = Bench::new();
    let bytes: Vec<u8> = (0..=255).collect();
    std::fs::write(bench.path("a.bin"), &bytes).unwrap();
    let recorded = play(&bench, "a.bin", "b.out", &["player.format=cu8", "recorder.format=cu8"]);
    assert_eq!(recorded, bytes);
    let floats = play(&bench, "a.bin", "b.out", &["player.format=cu8"]);
    assert_eq!(floats.len(), 4 * bytes.len());
    assert_eq!(floats[..4], (-1.0f32).to_le_bytes());
}

fn sigmf_metadata_travel_with_the_samples() {
    let bench = Bench::new();
    let meta = r#"{"global": {"core:datatype": "ci16_le", "core:version": "1.0.0", "core:sample_rate": 2.4e6},
        "captures": [{"core:sample_start": 0, "core:frequency": 433.92e6}], "annotations": []}"#;
    std::fs::write(bench.path("in.sigmf-meta"), meta).unwrap();
    std::fs::write(bench.path("in.sigmf-data"), [7; 400]).unwrap();
    let recorded = play(&bench, "in.sigmf-meta", "out.sigmf-meta", &["player.output=cs16"]);
    assert_eq!(recorded, [7; 400]);
    let reader = IqFileReader::open(bench.path("out.sigmf-meta"), &IqReaderOptions::default()).unwrap();
    let meta = reader.sigmf().unwrap();
    assert_eq!((meta.format, meta.sample_rate_hz), (SampleFormat::Cs16.scalar(), Some(2.4e6)));
    assert_eq!(meta.captures.len(), 1);
    let first = &meta.captures[0];
    assert_eq!((first.frequency_hz, first.global_index), (Some(433.92e6), Some(0)));
}

fn write_cf32(path: &Path, samples: impl Iterator<Item = Complex<f32>>) {
    let bytes: Vec<u8> = samples.flat_map(|z| [z.re.to_le_bytes(), z.im.to_le_bytes()].concat()).collect();
    std::fs::write(path, bytes).unwrap();
}

fn am_is_demodulated() {
    let bench = Bench::new();
    let signal = (0..48_000).map(|n| {
        let carrier = Complex::from_polar(0.2, 0.3 * n as f32);
        carrier * (1.0 + 0.5 * (TAU * 500.0 * f64::from(n) / 48e3).sin() as f32)
    });
    write_cf32(&bench.path("am.cf32"), signal);
    bench
        .text(
            r#"
            [component]
            player = { type = "file-source", properties = { path = "am.cf32", sample_rate = 48000 } }
            am = { type = "am-demodulator" }
            speaker = { type = "wav-sink", properties = { path = "am.wav", encoding = "float32", gain = 2 } }
            [[connection]]
            from = "player"
            to = "am"
            [[connection]]
            from = "am"
            to = "speaker"
            "#,
        )
        .run()
        .ended();
    let (rate, audio) = wav(&bench.path("am.wav"));
    assert_eq!((rate, audio.len()), (48_000, 48_000));
    let peak = audio[24_000..].iter().fold(0.0f32, |peak, x| peak.max(x.abs()));
    assert!((peak - 1.0).abs() < 0.05, "half modulated, twice as loud: {peak}");
}

/// Sends a tone of 10 kHz through a filter, decimated or not. Returns the settled peak of the
/// output, and the rate of the output.
fn filtered(bench: &Bench, type_name: &str, properties: &str) -> (f32, u32) {
    let text = format!(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = {{ output = "f32", frequency = 10e3, sample_rate = 96e3, duration_s = 0.5, amplitude = 0.5 }}
        [component.filter]
        type = "{type_name}"
        properties = {{ {properties} }}
        [component.speaker]
        type = "wav-sink"
        properties = {{ path = "tone.wav", encoding = "float32", existing = "replace" }}
        [[connection]]
        from = "tone"
        to = "filter"
        [[connection]]
        from = "filter"
        to = "speaker"
        "#
    );
    bench.text(&text).run().ended();
    let (rate, audio) = wav(&bench.path("tone.wav"));
    assert_eq!(audio.len(), rate as usize / 2);
    (audio[audio.len() / 2..].iter().fold(0.0f32, |peak, x| peak.max(x.abs())), rate)
}

fn the_magnitude_of_a_sine_is_its_amplitude() {
    let bench = Bench::new();
    for (squared, dispatch, expected) in [(false, "queue", 0.5), (true, "pool(2)", 0.25)] {
        let text = format!(
            "[component.tone]\ntype = 'signal-generator'\n\
             properties = {{ frequency = 1e3, amplitude = 0.5, sample_rate = 48e3, duration_s = 0.5, packet = 1000 }}\n\
             [component.magnitude]\ntype = 'magnitude'\ndispatch = '{dispatch}'\nproperties = {{ squared = {squared} }}\n\
             [component.speaker]\ntype = 'wav-sink'\n\
             properties = {{ path = '{}', encoding = 'float32', existing = 'replace' }}\n\
             [[connection]]\nfrom = 'tone'\nto = 'magnitude'\n\
             [[connection]]\nfrom = 'magnitude'\nto = 'speaker'\n\
             resequence = {{ window = 64, skip-after-ms = 60000 }}\n",
            bench.path("out.wav").display(),
        );
        bench.text(&text).threads().run();
        // The sample rate of the stream is passed on.
        let (rate, samples) = wav(&bench.path("out.wav"));
        assert_eq!((rate, samples.len()), (48_000, 24_000));
        assert!(samples.iter().all(|sample| (sample - expected).abs() < 1e-5), "{:?}", &samples[..4]);
    }
}

fn a_filter_passes_its_band() {
    let bench = Bench::new();
    let is_passed = |(peak, rate): (f32, u32), expected: u32| (peak - 0.5).abs() < 0.02 && rate == expected;
    assert!(is_passed(filtered(&bench, "fir-filter", "high = 20e3"), 96_000));
    assert!(is_passed(filtered(&bench, "fir-filter", "low = 8e3, high = 12e3, window = 'kaiser'"), 96_000));
    assert!(filtered(&bench, "fir-filter", "high = 5e3, window = 'blackman'").0 < 0.001);
    assert!(filtered(&bench, "fir-filter", "low = 15e3, high = 20e3").0 < 0.002);
    assert!(is_passed(filtered(&bench, "decimator", "factor = 3"), 32_000));
    assert!(filtered(&bench, "decimator", "factor = 6, cutoff = 5e3").0 < 0.002);
}

fn noise_has_the_power_asked_for() {
    let bench = Bench::new();
    let text = r#"
        [component]
        silence = { type = "null-source", properties = { packets = 10 } }
        noise = { type = "awgn", properties = { power = -6.0206 } }
        recorder = { type = "file-sink", properties = { path = "noise.out" } }
        [[connection]]
        from = "silence"
        to = "noise"
        [[connection]]
        from = "noise"
        to = "recorder"
    "#;
    bench.text(text).run().ended();
    let options = IqReaderOptions { format: Some(SampleFormat::Cf32), ..Default::default() };
    let mut samples = vec![Complex::default(); 50_000];
    let mut reader = IqFileReader::open(bench.path("noise.out"), &options).unwrap();
    assert_eq!(reader.read_samples(&mut samples).unwrap(), 40_960);
    let power = samples.iter().map(|z| z.norm_sqr()).sum::<f32>() / 40_960.0;
    assert!((power - 0.25).abs() < 0.01, "{power}");
}

fn throttle_and_tee_pass_on_what_they_get() {
    let bench = Bench::new();
    let bytes: Vec<u8> = (0..20_000u32).map(|n| (n % 239) as u8).collect();
    std::fs::write(bench.path("a.cu8"), &bytes).unwrap();
    let text = r#"
        [component]
        player = { type = "file-source", properties = { path = "a.cu8", output = "cu8", packet = 100 } }
        throttle = { type = "throttle", properties = { rate = 50e3 } }
        tee = { type = "tee" }
        one = { type = "file-sink", properties = { path = "one.out" } }
        three = { type = "file-sink", properties = { path = "three.out" } }
        [[connection]]
        from = "player"
        to = "throttle"
        [[connection]]
        from = "throttle"
        to = "tee"
        [[connection]]
        from = "tee.out1"
        to = "one"
        [[connection]]
        from = "tee.out3"
        to = "three"
    "#;
    let report = bench.text(text).threads().run().ended();
    // 10,000 samples at 50 ksample/s, without the last packet.
    assert!((0.19..2.0).contains(&report.duration_s), "{} s", report.duration_s);
    for name in ["one.out", "three.out"] {
        assert_eq!(std::fs::read(bench.path(name)).unwrap(), bytes, "{name}");
    }
}

fn zeros_are_counted() {
    let bench = Bench::new();
    let text = r#"
        [component]
        source = { type = "null-source", properties = { packets = 500, packet = 10, output = "cs16" } }
        other = { type = "null-source", properties = { packets = 300, packet = 10, output = "cs16", rate = 1e5 } }
        sink = { type = "null-sink" }
        [[connection]]
        from = "source"
        to = "sink"
        [[connection]]
        from = "other"
        to = "sink"
    "#;
    let report = bench.text(text).run().ended();
    let counts: Vec<_> = report.connections.iter().map(|c| (c.packets, c.bytes, c.lost_samples)).collect();
    assert_eq!(counts, [(500, 20_000, 0), (300, 12_000, 0)]);
}

fn a_stopped_sink_finishes_its_file() {
    let bench = Bench::new();
    let text = r#"
        [component]
        station = { type = "fm-station", properties = { rate = 240e3, packet = 4000 } }
        radio = { type = "fm-demodulator" }
        speaker = { type = "wav-sink", properties = { path = "audio.wav" } }
        recorder = { type = "file-sink", properties = { path = "station.out" } }
        [[connection]]
        from = "station"
        to = "radio"
        [[connection]]
        from = "radio"
        to = "speaker"
        [[connection]]
        from = "station"
        to = "recorder"
    "#;
    let report = bench.text(text).duration(Duration::from_millis(500)).run().ended();
    assert!(report.stopped.is_some());
    let (rate, audio) = wav(&bench.path("audio.wav"));
    assert_eq!(rate, 240_000);
    let recorded = std::fs::metadata(bench.path("station.out")).unwrap().len();
    // Both files end with the same packet. The number of packets depends on the machine.
    assert_eq!(audio.len() as u64, recorded / 8);
    assert_eq!(recorded % (8 * 4000), 0, "whole packets");
    assert!(recorded > 0);
}

fn a_child_of_a_component_inherits_nothing() {
    let bench = Bench::new();
    let text = "[component.parent]\ntype = \"parent\"\nproperties = { path = \"child.txt\" }";
    let ours = inherited().unwrap();
    for threads in [false, true] {
        let job = bench.text(text);
        if threads { job.threads() } else { job }.run().ended();
        let child = std::fs::read_to_string(bench.path("child.txt")).unwrap();
        assert!(child.contains("PATH") && child.contains("pipe:"), "{child}");
        for line in child.lines().filter(|line| line.contains("STRIPLINE_") || line.contains("socket:")) {
            let what = line.rsplit(' ').next().unwrap();
            assert!(ours.contains(what), "{what} in {child}");
        }
    }
}

fn a_full_disk_is_an_error() {
    if !Path::new("/dev/full").exists() {
        println!("NOT RUN: no /dev/full on this system");
        return;
    }
    let bench = Bench::new();
    let expected = "/dev/full: cannot write after";
    let sink = "sink.path=/dev/full";
    let adsb = bench.file("adsb.toml").set("source.rate=0").set("source.duration_s=1").set(sink);
    adsb.set("sink.table=false").run().failed(&["sink", expected]);
    bench.file("fm.toml").set("speaker.path=/dev/full").run().failed(&["speaker", expected]);
    let text = r#"
        [component.source]
        type = "null-source"
        properties = { packets = 100 }
        [component.recorder]
        type = "file-sink"
        properties = { path = "/dev/full" }
        [[connection]]
        from = "source"
        to = "recorder"
    "#;
    bench.text(text).run().failed(&["recorder", expected]);
}

fn mistakes_are_told_with_a_remedy() {
    let bench = Bench::new();
    std::fs::write(bench.path("odd.cu8"), [0; 3]).unwrap();
    std::fs::write(bench.path("a.cu8"), [0; 400]).unwrap();
    let path = |name: &str| format!("source.path={}", bench.path(name).display());
    let adsb = |setting: &str| bench.file("adsb.toml").set(setting).set("source.rate=0");
    adsb(&path("missing.cu8")).refused(&["source", "missing.cu8: there is no such file"]);
    adsb(&path("odd.cu8")).refused(&["odd.cu8", "truncate_partial"]);
    adsb(&path("")).refused(&["directory"]);
    adsb("source.sample_rate=3e6").run().failed(&["demodulator", "3000000 samples/s", "2000000"]);
    adsb("source.sample_rate=5").refused(&["`sample_rate`", "from 1e6"]);
    adsb("sink.path=/no/such/folder/x").refused(&["sink", "there is no folder /no/such/folder"]);
    bench.file("adsb.toml").set("source.rate=-0.5").refused(&["`rate` is -0.5", "0 or more"]);

    let player = format!("player.path={}", bench.path("a.cu8").display());
    let recorder = format!("recorder.path={}", bench.path("b.out").display());
    let played = || bench.text(PLAY).set(&player).set(&recorder);
    played().set("player.output=cs16").refused(&["a.cu8", "set the property `output` to \"cu8\""]);
    let cannot = ["recorder", "cannot be converted to cs16"];
    played().set("player.output=cu8").set("recorder.format=cs16").run().failed(&cannot);

    let channel = ["`channel`", "half the lower rate", "samples/s arrive"];
    bench.file("fm.toml").set("channel.cutoff=130e3").refused(&channel);
    bench.file("fm.toml").set("station.sample_rate=1e3").refused(&["station", "`sample_rate` is 1000"]);
    let demodulator = ["`demodulator`", "`deviation` is 200000", "samples/s arrive"];
    bench.file("fm.toml").set("demodulator.deviation=200e3").refused(&demodulator);
    let text = r#"
        [component]
        player = { type = "file-source", properties = { path = "a.cu8" } }
        radio = { type = "fm-demodulator" }
        sink = { type = "null-sink" }
        [[connection]]
        from = "player"
        to = "radio"
        [[connection]]
        from = "radio"
        to = "sink"
    "#;
    bench.text(text).refused(&["`radio` needs a sample rate", "`sample_rate`"]);
}
