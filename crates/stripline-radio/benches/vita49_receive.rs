//! `vita49-source` and a bare loop of `recvmmsg` that checks the packet counts, in turn: datagrams
//! a second without loss, and processor time of the receiving thread for each. A sender in another
//! process is never more than a window ahead of the samples that have arrived, so that no queue
//! overflows. The bare loop reads to the same place in the cache again, and no other thread takes
//! its samples.
//!
//!     cargo bench -p stripline-radio --bench vita49_receive

#![allow(clippy::unwrap_used, clippy::undocumented_unsafe_blocks, reason = "a benchmark")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::mem::zeroed;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use stripline::Complex;
use stripline::component::harness::Harness;
use stripline_radio::vita49::Vita49Source;

/// The bytes of a datagram, the most datagrams ahead, and the datagrams of a round.
const SIZES: [(usize, u64, u64); 2] = [(1472, 64, 300_000), (8192, 16, 100_000)];
/// The rounds of each, in turn.
const ROUNDS: usize = 9;
/// The bytes of a datagram before the payload, and of a sample.
const BEFORE: usize = 28;
const SAMPLE: usize = 4;
/// The most datagrams of a call, and of a burst of the sender.
const BATCH: usize = 64;
const BURST: u64 = 16;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let numbers: Vec<u64> = arguments.iter().filter_map(|text| text.parse().ok()).collect();
    match arguments.get(1).map(String::as_str) {
        Some("send") => send(&arguments[2], &arguments[3], &numbers),
        Some("bare") => receive(&arguments[2], &numbers, bare),
        Some("source") => receive(&arguments[2], &numbers, source),
        _ => compare(),
    }
}

fn compare() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    println!("bytes  bare k/s  source k/s  ratio  bare ns  source ns  ratio  (ranges of the ratios)");
    for (size, window, count) in SIZES {
        let mut rounds: Vec<[f64; 4]> = (0..ROUNDS)
            .map(|_| {
                let [one, other] =
                    ["bare", "source"].map(|kind| round(folder.path(), kind, size, window, count));
                [one[0], other[0], one[1], other[1]]
            })
            .collect();
        let mut by = |[over, under]: [usize; 2]| {
            rounds.sort_by(|one, other| (one[over] / one[under]).total_cmp(&(other[over] / other[under])));
            let [first, middle, last] = [0, ROUNDS / 2, ROUNDS - 1].map(|index| rounds[index]);
            (middle, middle[over] / middle[under], [first, last].map(|round| round[over] / round[under]))
        };
        let (rate, rates, rate_range) = by([1, 0]);
        let (cost, costs, cost_range) = by([3, 2]);
        println!(
            "{size:5}  {:8.0}  {:10.0}  {rates:5.2}  {:7.0}  {:9.0}  {costs:5.2}  ({:.2} to {:.2}, {:.2} to {:.2})",
            rate[0], rate[1], cost[2], cost[3], rate_range[0], rate_range[1], cost_range[0], cost_range[1],
        );
    }
}

/// Returns the thousands of datagrams a second, and the processor time of each in ns.
fn round(folder: &Path, kind: &str, size: usize, window: u64, count: u64) -> [f64; 2] {
    let page = folder.join("page");
    File::create(&page).unwrap().set_len(4096).unwrap();
    let start = |role: &str, before: &[&str]| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.arg(role).args(before).arg(&page);
        command.args([size as u64, window, count].map(|number| number.to_string()));
        command.stdout(Stdio::piped()).spawn().unwrap()
    };
    let mut receiver = start(kind, &[]);
    let mut lines = BufReader::new(receiver.stdout.take().unwrap()).lines();
    let mut sender = start("send", &[&lines.next().unwrap().unwrap()]);
    let result = lines.next().unwrap().unwrap();
    assert!(receiver.wait().unwrap().success() && sender.wait().unwrap().success());
    let numbers: Vec<f64> = result.split(' ').map(|text| text.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Returns the number of datagrams that have arrived, in memory of both processes.
fn arrived(page: &str) -> &'static AtomicU64 {
    let file = File::options().read(true).write(true).open(page).unwrap();
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let place = unsafe { libc::mmap(null_mut(), 4096, access, libc::MAP_SHARED, file.as_raw_fd(), 0) };
    assert!(place != libc::MAP_FAILED);
    unsafe { libc::alarm(120) };
    unsafe { &*place.cast() }
}

/// Sends signal data of DIFI: 1,000,000 samples a second, with stamps of UTC in picoseconds.
fn send(address: &str, page: &str, numbers: &[u64]) {
    let [size, window, count] = numbers[..] else { panic!() };
    let arrived = arrived(page);
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(address).unwrap();
    let samples = (size as usize - BEFORE) / SAMPLE;
    let mut datagrams = vec![vec![1_u8; size as usize]; BURST as usize];
    let mut parts: Vec<libc::iovec> = datagrams
        .iter_mut()
        .map(|datagram| libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: datagram.len() })
        .collect();
    let mut messages = messages(&mut parts);
    let mut sent = 0;
    while sent < count {
        let room = (arrived.load(Ordering::Acquire) + window).saturating_sub(sent);
        let burst = room.min(BURST).min(count - sent);
        if burst == 0 {
            std::thread::yield_now();
            continue;
        }
        for (packet, datagram) in (sent..sent + burst).zip(&mut datagrams) {
            let index = packet * samples as u64;
            let ps = index % 1_000_000 * 1_000_000;
            let words = [
                0x1860_0000 | (packet as u32 & 15) << 16 | (size / 4) as u32,
                7,
                0x006a_621e,
                0,
                (1_700_000_000 + index / 1_000_000) as u32,
                (ps >> 32) as u32,
                ps as u32,
            ];
            datagram
                .chunks_mut(4)
                .zip(words)
                .for_each(|(place, word)| place.copy_from_slice(&word.to_be_bytes()));
        }
        let done = unsafe { libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), burst as u32, 0) };
        sent += u64::try_from(done).unwrap();
    }
}

fn messages(parts: &mut [libc::iovec]) -> Vec<libc::mmsghdr> {
    let message = |part: &mut libc::iovec| {
        let mut message: libc::mmsghdr = unsafe { zeroed() };
        (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (part, 1);
        message
    };
    parts.iter_mut().map(message).collect()
}

/// A way to receive: page, bytes of a datagram and count, to the time and the processor's time.
type Way = fn(&'static AtomicU64, usize, u64) -> (f64, u64);

fn receive(page: &str, numbers: &[u64], way: Way) {
    let [size, _, count] = numbers[..] else { panic!() };
    let (seconds, processor_ns) = way(arrived(page), size as usize, count);
    println!("{} {}", count as f64 / seconds / 1e3, processor_ns as f64 / count as f64);
}

fn bare(arrived: &'static AtomicU64, size: usize, count: u64) -> (f64, u64) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let queue = (8_i32 << 20).to_ne_bytes();
    unsafe {
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, queue.as_ptr().cast(), 4)
    };
    println!("{}", socket.local_addr().unwrap());
    let mut datagrams = vec![vec![0_u8; size]; BATCH];
    let mut parts: Vec<libc::iovec> = datagrams
        .iter_mut()
        .map(|datagram| libc::iovec { iov_base: datagram.as_mut_ptr().cast(), iov_len: datagram.len() })
        .collect();
    let mut messages = messages(&mut parts);
    let (mut done, mut begun) = (0, None);
    while done < count {
        let wait = libc::MSG_WAITFORONE;
        let received = unsafe {
            libc::recvmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), BATCH as u32, wait, null_mut())
        };
        begun = begun.or_else(|| Some((Instant::now(), processor_ns("vita49_receive"))));
        for (message, part) in messages.iter().zip(&parts).take(usize::try_from(received).unwrap()) {
            let datagram =
                unsafe { std::slice::from_raw_parts(part.iov_base.cast::<u8>(), message.msg_len as usize) };
            assert_eq!((datagram.len(), u64::from(datagram[1] & 15)), (size, done & 15), "a loss");
            done += 1;
        }
        arrived.store(done, Ordering::Release);
    }
    let (begun, processor) = begun.unwrap();
    (begun.elapsed().as_secs_f64(), processor_ns("vita49_receive") - processor)
}

fn source(arrived: &'static AtomicU64, size: usize, count: u64) -> (f64, u64) {
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let harness = Harness::of::<Vita49Source>().property("address", address.clone());
    let mut run = harness.property("samples", "cs16").property("sample_rate", 1e6).start().unwrap();
    let mut output = run.output::<Complex<i16>>("out").unwrap();
    println!("{address}");
    let samples = ((size - BEFORE) / SAMPLE) as u64;
    let (mut due, mut begun) = (0, None);
    while due < count * samples {
        let packet = output.receive().unwrap().unwrap();
        begun = begun.or_else(|| Some((Instant::now(), processor_ns("vita49-source"))));
        assert_eq!(packet.sample_index(), due, "a loss");
        due += packet.len() as u64;
        arrived.store(due / samples, Ordering::Release);
    }
    let (begun, processor) = begun.unwrap();
    let result = (begun.elapsed().as_secs_f64(), processor_ns("vita49-source") - processor);
    run.stop();
    drop(output);
    run.finish().unwrap();
    result
}

/// Returns the processor time of the thread with this name.
fn processor_ns(name: &str) -> u64 {
    let threads = std::fs::read_dir("/proc/self/task").unwrap().map(|entry| entry.unwrap().path());
    let is_named = |path: &std::path::PathBuf| {
        std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim().starts_with(&name[..13]))
    };
    let thread = threads.filter(is_named).last().unwrap();
    let text = std::fs::read_to_string(thread.join("schedstat")).unwrap();
    text.split(' ').next().unwrap().parse().unwrap()
}
