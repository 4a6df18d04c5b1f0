//! `soapy-source` and a bare loop over the driver's read, in turn: rate, and processor time of the
//! reading thread. The device copies samples from a buffer, as the leanest driver does, or makes
//! each sample, as a driver that converts. The bare loop reads to the same place in the cache
//! again, and no other thread takes its samples.
//!
//!     cargo bench -p stripline-radio --features soapy

#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks, reason = "a benchmark")]

use std::ffi::CString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use soapysdr_sys as sys;
use stripline::Complex;
use stripline::component::harness::Harness;
use stripline_radio::SoapySource;

/// The devices, and the samples of a round.
const DEVICES: [(&str, &str, usize); 2] = [("copies", "copies=1,", 400_000_000), ("makes", "", 10_000_000)];
/// The rounds of each, in turn.
const ROUNDS: usize = 5;
/// The most samples that the driver returns in a read.
const READS: [usize; 3] = [1000, 8192, 16_384];

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let module = folder.path().join("libramp.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/soapy_module/ramp.cpp");
    let mut build = Command::new("c++");
    build
        .args(["-std=c++14", "-O2", "-shared", "-fPIC"])
        .arg(source)
        .arg("-o")
        .arg(&module)
        .arg("-lSoapySDR");
    assert!(build.status().unwrap().success());
    let path = CString::new(module.to_str().unwrap()).unwrap();
    unsafe { sys::SoapySDR_loadModule(path.as_ptr()) };
    println!(
        "device  read  bare Msample/s  source Msample/s  ratio  bare ns/sample  source ns/sample  ratio"
    );
    for ((name, argument, samples), reads) in
        DEVICES.into_iter().flat_map(|one| READS.map(|reads| (one, reads)))
    {
        let device = format!("driver=ramp,serial=bench-{reads},{argument}reads={reads}");
        let mut rounds: Vec<[f64; 4]> = (0..ROUNDS)
            .map(|_| {
                let (bare, bare_time) = bare(&device, reads, samples);
                let (source, source_time) = source_of(&device, reads, samples);
                [bare, source, bare_time, source_time]
            })
            .collect();
        // The round with the median ratio of rates.
        rounds.sort_by(|one, other| (one[1] / one[0]).total_cmp(&(other[1] / other[0])));
        let [bare, source, bare_time, source_time] = rounds[ROUNDS / 2];
        println!(
            "{name:6} {reads:5}  {bare:14.0}  {source:16.0}  {:5.2}  {bare_time:14.3}  {source_time:16.3}  {:5.2}",
            source / bare,
            source_time / bare_time
        );
    }
}

/// Returns the rate in Msample/s, and the processor time of a sample in ns.
fn bare(device: &str, reads: usize, count: usize) -> (f64, f64) {
    let device = CString::new(device).unwrap();
    let mut samples = vec![Complex::new(0i16, 0); reads];
    unsafe {
        let device = sys::SoapySDRDevice_makeStrArgs(device.as_ptr());
        let none = sys::SoapySDRKwargs { size: 0, keys: std::ptr::null_mut(), vals: std::ptr::null_mut() };
        let format = c"CS16".as_ptr();
        let stream = sys::SoapySDRDevice_setupStream(device, 1, format, [0].as_ptr(), 1, &raw const none);
        sys::SoapySDRDevice_activateStream(device, stream, 0, 0, 0);
        let begun = (Instant::now(), processor_ns(&thread_of(None)));
        let mut done = 0;
        while done < count {
            let (mut flags, mut time_ns) = (0, 0);
            let place = [samples.as_mut_ptr().cast()];
            let (flags, time_ns) = (&raw mut flags, &raw mut time_ns);
            let read = sys::SoapySDRDevice_readStream(
                device,
                stream,
                place.as_ptr(),
                reads,
                flags,
                time_ns,
                100_000,
            );
            done += usize::try_from(read).unwrap();
        }
        let result = result(done, begun.0.elapsed(), processor_ns(&thread_of(None)) - begun.1);
        sys::SoapySDRDevice_closeStream(device, stream);
        sys::SoapySDRDevice_unmake(device);
        result
    }
}

fn source_of(device: &str, reads: usize, count: usize) -> (f64, f64) {
    let harness = Harness::of::<SoapySource>().property("device", device).property("tuner", "");
    let mut source = harness.property("packet", reads as i64).start().unwrap();
    let mut output = source.output::<Complex<i16>>("out").unwrap();
    output.receive().unwrap().unwrap();
    let thread = thread_of(Some("stripline-soapy"));
    let begun = (Instant::now(), processor_ns(&thread));
    let mut done = 0;
    while done < count {
        done += output.receive().unwrap().unwrap().len();
    }
    let result = result(done, begun.0.elapsed(), processor_ns(&thread) - begun.1);
    source.stop();
    drop(output);
    source.finish().unwrap();
    result
}

fn result(samples: usize, time: Duration, processor_ns: u64) -> (f64, f64) {
    (samples as f64 / time.as_secs_f64() / 1e6, processor_ns as f64 / samples as f64)
}

/// Returns the folder of a thread of this process, or of the calling one.
fn thread_of(name: Option<&str>) -> String {
    let Some(name) = name else { return "/proc/thread-self".into() };
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let is_named = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
    };
    threads.filter(is_named).last().unwrap().to_str().unwrap().to_owned()
}

/// Returns the processor time of a thread.
fn processor_ns(thread: &str) -> u64 {
    let text = std::fs::read_to_string(format!("{thread}/schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
