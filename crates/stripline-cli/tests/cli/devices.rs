//! `stripline devices`, and a waveform with a device of SoapySDR.

use crate::common::run;

#[test]
fn a_program_without_soapysdr_names_the_feature() {
    if cfg!(feature = "soapy") {
        assert!(run(&["components", "soapy-source"]).stdout.contains("stripline devices"));
        return;
    }
    let brings = "build it with the feature `soapy`, which takes SoapySDR (libsoapysdr-dev, pkg-config)";
    run(&["devices"]).says(1, &["SoapySDR is not in this program", brings]);
    run(&["components", "soapy-source"]).says(2, &[brings]);
    run(&["check", "adsb", "--set", "source.type=soapy-source"])
        .says(2, &["unknown component type `soapy-source`", brings]);
}

#[cfg(feature = "soapy")]
mod with_soapysdr {
    use std::path::Path;
    use std::process::Command;

    use serde_json::Value;

    use crate::common::{Run, repository, stripline};

    /// Builds the device of the tests into a folder.
    fn build(folder: &Path) {
        let module = repository("crates/stripline-radio/tests/soapy_module/ramp.cpp");
        let built = Command::new("c++")
            .args(["-std=c++14", "-O1", "-shared", "-fPIC"])
            .arg(module)
            .arg("-o")
            .arg(folder.join("libramp.so"))
            .arg("-lSoapySDR")
            .status();
        assert!(built.unwrap().success());
    }

    /// Runs the command with the device.
    fn run(folder: &Path, arguments: &[&str]) -> Run {
        let mut command = stripline();
        command.env("SOAPY_SDR_PLUGIN_PATH", folder).env("SOAPY_SDR_LOG_LEVEL", "WARNING").args(arguments);
        Run::of(command.output().unwrap())
    }

    #[test]
    fn devices_are_listed_with_their_names() {
        let folder = tempfile::tempdir().unwrap();
        build(folder.path());
        let text = run(folder.path(), &["devices", "driver=ramp"]).stdout;
        for part in ["Ramp of the tests", "driver=ramp,serial=0001", "[component.source]"] {
            assert!(text.contains(part), "{text}");
        }
        let json = run(folder.path(), &["devices", "--json", "driver=ramp"]).stdout;
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["devices"][0]["device"], "driver=ramp,serial=0001");
        let none = run(folder.path(), &["devices", "driver=none"]);
        none.says(0, &[]);
        assert!(none.stdout.starts_with("no devices (SoapySDR 0."), "{}", none.stdout);
    }

    #[test]
    fn ages_have_the_error_of_the_device_s_clock() {
        let folder = tempfile::tempdir().unwrap();
        build(folder.path());
        let path = folder.path().join("ages.toml");
        let waveform = "[component.source]\ntype = \"soapy-source\"\n\
                        properties = { device = \"driver=ramp\", duration_s = 0.1, time = \"device\", \
                        clock_source = \"external\", clock_error_ns = 250 }\n\
                        [component.sink]\ntype = \"null-sink\"\n\
                        [[connection]]\nfrom = \"source.out\"\nto = \"sink.in\"\n";
        std::fs::write(&path, waveform).unwrap();
        let run = run(folder.path(), &["run", path.to_str().unwrap()]);
        assert!(run.stdout.contains("AGE MAX") && run.stdout.contains(" d ± 250 ns"), "{}", run.stdout);
    }

    #[test]
    fn aircraft_are_received_from_a_device_with_planted_losses() {
        let folder = tempfile::tempdir().unwrap();
        build(folder.path());
        let file = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let (sky, lossy) = (file("sky.cu8"), file("lossy.json"));
        // A second of a simulated sky, as samples in a file.
        let waveform = "[component.source]\ntype = \"adsb-source\"\nproperties = { duration_s = 1.0, rate = 0.0 }\n\
                        [component.sink]\ntype = \"file-sink\"\nproperties = { path = \"sky.cu8\" }\n\
                        [[connection]]\nfrom = \"source.out\"\nto = \"sink.in\"\n";
        std::fs::write(file("record.toml"), waveform).unwrap();
        run(folder.path(), &["run", &file("record.toml")]).says(0, &[]);
        let frames = |from: &[&str], path: &str| {
            let mut arguments = vec!["run", "adsb", "--set", "sink.table=false", "--output", &lossy];
            let path = format!("sink.path={}", file(path));
            arguments.extend(["--set", &path]);
            arguments.extend(from);
            run(folder.path(), &arguments).says(0, &[]);
            std::fs::read_to_string(path.trim_start_matches("sink.path=")).unwrap()
        };
        let from_file = format!("source.path={sky}");
        let wanted = frames(&["--set", "source.type=file-source", "--set", &from_file], "file.avr");
        assert!(wanted.lines().count() > 10, "{wanted}");
        std::fs::remove_file(&lossy).unwrap();
        let device = |rest: &str| format!("source.device=driver=ramp,serial=sky,play={sky}{rest}");
        let source = [
            "source.type=soapy-source",
            "source.format=cu8",
            "source.sample_rate=2e6",
            "source.duration_s=1",
        ];
        let options = |device: &str| -> Vec<String> {
            let set = source.iter().copied().chain([device]).flat_map(|text| ["--set", text]);
            set.map(str::to_owned).collect()
        };
        let whole = options(&device(""));
        assert_eq!(frames(&whole.iter().map(String::as_str).collect::<Vec<_>>(), "device.avr"), wanted);
        std::fs::remove_file(&lossy).unwrap();
        // Sample 1,000,000 and the next 123,456 are lost.
        let with_loss = options(&device(",overflow=1000000:123456"));
        let found = frames(&with_loss.iter().map(String::as_str).collect::<Vec<_>>(), "lossy.avr");
        assert!(found.lines().count() < wanted.lines().count());
        assert!(found.lines().all(|line| wanted.contains(line)));
        let report: Value = serde_json::from_str(&std::fs::read_to_string(&lossy).unwrap()).unwrap();
        let components = report["components"].as_array().unwrap();
        let source = components.iter().find(|one| one["name"] == "source").unwrap();
        assert_eq!(
            (&source["files"][0]["missing"], &source["files"][0]["places"]),
            (&123_456.into(), &1.into())
        );
    }
}
