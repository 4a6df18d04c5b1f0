//! `print-sink` and `waterfall-sink` on standard output, and on a terminal.

use crate::common::pty::on_terminal;
use crate::common::waveform::File;
use crate::common::{run, stripline};

fn zeros() -> File {
    File::new(
        r#"
        [component.zeros]
        type = "null-source"
        properties = { packets = 3, packet = 2, output = "s16" }
        [component.printer]
        type = "print-sink"
        [[connection]]
        from = "zeros"
        to = "printer"
        "#,
    )
}

fn spectra() -> File {
    File::new(
        r#"
        [component.tone]
        type = "signal-generator"
        properties = { sample_rate = 64e3, frequency = 8e3, duration_s = 0.01 }
        [component.spectra]
        type = "fft"
        properties = { size = 64, window = "rectangular" }
        [component.waterfall]
        type = "waterfall-sink"
        [[connection]]
        from = "tone"
        to = "spectra"
        [[connection]]
        from = "spectra"
        to = "waterfall"
        "#,
    )
}

#[test]
fn packets_are_printed_to_standard_output_also_when_quiet() {
    let file = zeros();
    let path = file.path("file.toml");
    for quiet in [&["--quiet"][..], &[]] {
        let found = run(&[&["run", path.to_str().unwrap()], quiet].concat());
        found.says(0, &[]);
        let packets: Vec<&str> = found.stdout.lines().filter(|line| line.starts_with("packet ")).collect();
        let expected = [0, 1, 2].map(|n| format!("packet {n} sample {} (2 samples): 0 0", 2 * n));
        assert_eq!(packets, expected, "{}", found.stdout);
        assert!(found.stdout.contains("the sender has ended"), "{}", found.stdout);
    }
}

#[test]
fn a_waterfall_is_as_wide_as_the_terminal_and_follows_no_color() {
    let file = spectra();
    let drawn = |no_color: &str, options: &[&str]| {
        let mut command = stripline();
        command.env("NO_COLOR", no_color).env("COLORTERM", "truecolor").env_remove("CLICOLOR_FORCE");
        let (code, output) = on_terminal(64, {
            command.arg("run").arg(file.path("file.toml")).args(options);
            command
        });
        assert_eq!(code, Some(0), "{output}");
        output
    };
    let plain = drawn("1", &[]);
    assert!(!plain.contains("\x1b[48"), "{plain:?}");
    let rows: Vec<&str> = plain.lines().filter(|line| line.contains('█')).collect();
    // There are 640 samples in rows of 64. A frequency of 8 kHz is eight bins above the middle.
    assert_eq!(rows.len(), 10, "{plain}");
    for row in rows {
        let row = row.trim_end_matches('\n');
        assert_eq!((row.chars().count(), row.chars().position(|c| c == '█')), (64, Some(40)), "{row:?}");
    }
    assert!(plain.contains("-32.0 kHz"), "{plain}");
    let coloured = drawn("", &[]);
    assert!(coloured.matches("\x1b[48;2;253;231;37m").count() >= 10, "{coloured:?}");
    let quiet = drawn("1", &["--quiet"]);
    assert!(!quiet.contains('█'), "{quiet}");
}
