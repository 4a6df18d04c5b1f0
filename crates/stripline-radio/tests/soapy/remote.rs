//! `soapy-source` and a device of another host: the module of the tests behind the server of
//! SoapyRemote.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::*;

/// A program that ends with this value, or with this process.
struct Running(Child);

impl Running {
    /// Starts a program. Returns its output up to the line with these words.
    fn start(program: &str, arguments: &[&str], variables: &[(&str, &str)], words: &str) -> (Self, String) {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", program]).args(arguments).envs(variables.iter().copied());
        let mut running = Self(command.stdout(Stdio::piped()).spawn().unwrap());
        let mut lines = BufReader::new(running.0.stdout.take().unwrap()).lines().map(Result::unwrap);
        let mut output = String::new();
        while !output.contains(words) {
            output += &lines.next().unwrap_or_else(|| panic!("{program} has ended: {output}"));
            output.push('\n');
        }
        // The program would end at a write to a pipe without a reader.
        std::thread::spawn(move || lines.for_each(drop));
        (running, output)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A server of SoapyRemote with the module.
struct Server {
    _process: Running,
    /// The bus of a service that the server asks for. The server ends without one.
    _bus: Running,
    _folder: tempfile::TempDir,
    address: String,
}

impl Server {
    /// Starts a server at a port; 0: a free one.
    fn start(port: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        build(folder.path());
        let path = folder.path().to_str().unwrap();
        let bus = ["--session", "--nofork", "--nopidfile", "--print-address=1"];
        let address = format!("--address=unix:path={path}/bus");
        let (bus, address) = Running::start("dbus-daemon", &[&bus[..], &[&address]].concat(), &[], "unix:");
        let variables = [("DBUS_SYSTEM_BUS_ADDRESS", address.trim_end()), ("SOAPY_SDR_PLUGIN_PATH", path)];
        let bind = format!("--bind=tcp://127.0.0.1:{port}");
        let (process, output) = Running::start("SoapySDRServer", &[&bind], &variables, "Press Ctrl+C");
        let address = output.lines().find_map(|line| line.strip_prefix("Server bound to "));
        let address = address.unwrap().to_owned();
        Self { _process: process, _bus: bus, _folder: folder, address }
    }

    fn port(&self) -> &str {
        self.address.rsplit_once(':').unwrap().1
    }

    /// Returns a source of the ramp at the server.
    fn receiver(&self, arguments: &str) -> Harness {
        load();
        let device = format!("driver=remote,remote=tcp://{},remote:driver=ramp,{arguments}", self.address);
        Harness::of::<SoapySource>()
            .property("device", device)
            .property("sample_rate", 1e6)
            .property("frequency", 100e6)
            .property("settle_ms", 0.0)
            .property("tuner", "")
    }
}

/// Receives datagrams with exact stamps, and each loss with its exact number.
#[test]
fn a_remote_device_has_its_stamps_and_losses() {
    let server = Server::start("0");
    // The end is before the datagrams could fill the receiver's buffer.
    let arguments = "start=5000000000,ends=40000,overflow=1428:50+5000:10,skip=3000:7";
    let mut source = server.receiver(arguments).property("time", "device").start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let parts = receive_to(&mut output, 40_000);
    assert!(parts.iter().all(|part| part.time_ns == 5_000_000_000 + 1000 * part.index as i64));
    // A datagram of two reads has no stamp inside. The server drops it if the second read fails.
    assert_eq!(gaps(&parts), [(1428, 50), (3263, 7), (4698, 312)]);
    for part in &parts {
        assert!(part.samples.len() <= 357);
        for (index, sample) in (part.index..).zip(&part.samples) {
            let late = if (3000..3263).contains(&index) { 7 } else { 0 };
            assert_eq!(*sample, Complex::new((index + late) as i16, 100), "sample {index}");
        }
    }
    let values = end(source, output);
    assert_eq!((&values["overflows"], &values["missing"]), (&2.into(), &369.into()));
    assert_eq!(values["unknown_losses"], 0.into());
}

/// Finds the devices of a server, and opens one by the name that was found.
#[test]
fn a_remote_device_is_found_by_its_name() {
    load();
    let server = Server::start("0");
    let list = stripline_radio::find_devices(&format!("driver=remote,remote=tcp://{}", server.address));
    let list = list.unwrap();
    let device = list.devices.iter().find(|device| device.label == "Ramp of the tests").unwrap();
    let source = Harness::of::<SoapySource>().property("device", &*device.name).property("tuner", "");
    let mut source = source.start().unwrap();
    let output = source.output::<Complex<i16>>("out").unwrap();
    assert_eq!(end(source, output)["actual_antenna"], "RX".into());
}

/// Labels no sample with a frequency that the sample does not have, and loses nothing over TCP.
#[test]
fn a_remote_device_is_tuned_at_its_sample() {
    let server = Server::start("0");
    let mut source = server.receiver("remote:prot=tcp").start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    let mut parts = receive_to(&mut output, 10_000);
    for megahertz in [200.0, 300.0] {
        std::thread::scope(|scope| {
            let set = scope.spawn(|| source.set("frequency", megahertz * 1e6));
            let is_new = |part: &Part<_>| part.stream.center_frequency_hz == Some(megahertz * 1e6);
            parts.extend(receive(&mut output, is_new));
            set.join().unwrap().unwrap();
        });
    }
    check_ramp(&parts);
    let lost: u64 = gaps(&parts).iter().map(|gap| gap.1).sum();
    let values = end(source, output);
    assert_eq!((&values["missing"], &values["left_out"]), (&0.into(), &(lost as i64).into()));
    assert_eq!((&values["unknown_losses"], &values["actual_frequency"]), (&0.into(), &300e6.into()));
}

/// Ends with the server, or waits for another one at the same address.
#[test]
fn a_server_that_dies_is_a_device_that_vanishes() {
    for reopen_s in [0.0, 60.0] {
        let server = Server::start("0");
        let mut source = server.receiver("").property("reopen_s", reopen_s).start().unwrap();
        let mut output = source.output::<Complex<i16>>("out").unwrap();
        check_ramp(&receive_to(&mut output, 10_000));
        let port = server.port().to_owned();
        drop(server);
        if reopen_s == 0.0 {
            while let Ok(Some(_)) = output.receive() {}
            let error = source.finish_within(Duration::from_secs(60)).unwrap_err().to_string();
            assert!(error.contains("remote:driver=ramp") && error.contains("`reopen_s`"), "{error}");
            continue;
        }
        let _server = Server::start(&port);
        let parts = receive(&mut output, |part| part.stream.id == "component-2");
        check_ramp(&parts);
        let values = end(source, output);
        assert_eq!((&values["reopened"], &values["unknown_losses"]), (&1.into(), &1.into()));
    }
}
