//! The command and its runs with the sockets in the folder `STRIPLINE_RUNTIME_DIR`.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::waveform::File;
use crate::common::{example, send, stripline, wait_until};
use rustix::process::Signal;
use serde_json::Value;

const VARIABLE: &str = "STRIPLINE_RUNTIME_DIR";

/// Returns a command that starts a process in a new network namespace. Returns `env`, which changes
/// nothing, where the machine does not allow that.
fn own_network() -> &'static [&'static str] {
    let ways: [&[&str]; 2] = [&["unshare", "--net"], &["unshare", "--user", "--map-current-user", "--net"]];
    let works = |way: &&[&str]| {
        let status = Command::new(way[0]).args(&way[1..]).arg("true").stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    };
    ways.into_iter().find(works).unwrap_or_else(|| {
        println!("NOT RUN: two network namespaces. This machine permits none: all ran in one");
        &["env"]
    })
}

/// Starts a program in a new network namespace, with these variables.
fn start_apart(program: &Path, arguments: &[&str], variables: &[(&str, &str)]) -> Child {
    let way = own_network();
    let mut command = Command::new(way[0]);
    command.args(&way[1..]).arg(program).args(arguments).envs(variables.iter().copied());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Runs the command in this process's network namespace, with that folder.
fn ask(folder: &str, arguments: &[&str]) -> Output {
    stripline().args(arguments).env(VARIABLE, folder).output().unwrap()
}

fn printed(folder: &str, arguments: &[&str]) -> String {
    let output = ask(folder, arguments);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{arguments:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Returns whether the waveform's sink has received a packet. Then all components run.
fn has_received(folder: &str, waveform: &str) -> bool {
    let output = ask(folder, &["get", waveform, "sink.packets"]);
    let packets = String::from_utf8(output.stdout).unwrap();
    packets.trim().parse::<u64>().is_ok_and(|packets| packets > 0)
}

fn is_empty(folder: &Path) -> bool {
    std::fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn a_run_in_another_network_is_found_and_controlled() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    let file = File::radio();
    let path = file.path("file.toml");
    let program = Path::new(env!("CARGO_BIN_EXE_stripline"));
    for transport in ["shm", "uds"] {
        let arguments = ["run", path.to_str().unwrap(), "--transport", transport];
        let mut run = start_apart(program, &arguments, &[(VARIABLE, folder)]);
        let name = &*file.name;
        wait_until("packets arrive", || has_received(folder, name));
        assert!(printed(folder, &["waveforms"]).contains(name));
        let links = printed(folder, &["links", name]);
        assert!(
            links.contains("tone.out") && links.contains("sink.in") && links.contains(transport),
            "{links}"
        );
        assert_eq!(printed(folder, &["set", name, "filter.high=5e3"]), "filter.high = 5000 Hz (was 4000)\n");
        let echo = printed(folder, &["echo", name, "tone.out", "--count", "2", "--json"]);
        assert_eq!(echo.lines().filter(|line| line.contains("\"sequence\"")).count(), 2, "{echo}");
        // Without the folder, the same user finds nothing.
        let without = stripline().args(["waveforms"]).env_remove(VARIABLE).output().unwrap();
        assert!(!String::from_utf8(without.stdout).unwrap().contains(name));
        assert!(printed(folder, &["stop", name]).contains("stopped (stripline stop)"));
        let ended = run.wait().unwrap();
        assert!(ended.success(), "{ended}");
        assert!(is_empty(place.path()), "an end in order leaves nothing");
    }
}

#[test]
fn servers_and_links_of_another_network_are_listed_and_a_killed_one_is_not() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    let domain = format!("places-{}", std::process::id());
    let variables = [(VARIABLE, folder), ("STRIPLINE_DOMAIN", &domain)];
    let mut tuner = start_apart(&example("tuner"), &["serve"], &variables);
    wait_until("the server is listed", || printed(folder, &["services", &domain]).contains("  tune: "));
    let listed = printed(folder, &["services", &domain]);
    assert!(listed.contains(" at shm:./stripline-"), "{listed}");
    let links: Value = serde_json::from_str(&printed(folder, &["links", "--json"])).unwrap();
    assert!(links.is_object(), "{links}");
    tuner.kill().unwrap();
    tuner.wait().unwrap();
    // The files of the killed server still exist, but are not listed as servers.
    assert!(!is_empty(place.path()));
    let listed = printed(folder, &["services", &domain]);
    assert!(listed.contains("There is no server"), "{listed}");
    let links = ask(folder, &["links"]);
    assert_eq!(String::from_utf8(links.stderr).unwrap(), "");
    // `services` joined the domain, and removed the files.
    assert!(is_empty(place.path()));
}

#[test]
fn what_is_wrong_with_the_folder_is_named_by_each_command() {
    let place = tempfile::tempdir().unwrap();
    let file = File::radio();
    let (path, name) = (file.path("file.toml"), &*file.name);
    let path = path.to_str().unwrap();
    let no_folder = place.path().join("file");
    std::fs::write(&no_folder, "").unwrap();
    for (folder, words) in
        [("", "it is empty; name a folder"), (no_folder.to_str().unwrap(), "is not a folder")]
    {
        for arguments in [
            &["links"][..],
            &["waveforms"],
            &["services"],
            &["get", name],
            &["stop", name],
            &["echo", "--topic", "iq"],
            &["run", path],
        ] {
            let output = ask(folder, arguments);
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success(), "{arguments:?}: {text}");
            assert!(text.contains(VARIABLE) && text.contains(words), "{arguments:?}: {text}");
        }
    }
}

#[test]
fn a_launcher_that_is_killed_leaves_files_that_the_next_run_removes() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    let file = File::radio();
    let path = file.path("file.toml");
    let program = Path::new(env!("CARGO_BIN_EXE_stripline"));
    let start = || {
        let child = start_apart(program, &["run", path.to_str().unwrap()], &[(VARIABLE, folder)]);
        wait_until("packets arrive", || has_received(folder, &file.name));
        child
    };
    let mut first = start();
    let named = |pid: u32| {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        entries.filter(|name| name.to_str().unwrap().contains(&format!("-{pid}-"))).count()
    };
    send(first.id(), Signal::KILL);
    first.wait().unwrap();
    assert!(named(first.id()) > 0, "a killed launcher leaves its files");
    assert!(!printed(folder, &["waveforms"]).contains(&file.name));
    let mut second = start();
    assert_eq!(named(first.id()), 0);
    send(second.id(), Signal::TERM);
    assert!(second.wait().unwrap().success());
    assert!(is_empty(place.path()), "an end in order leaves nothing");
}
