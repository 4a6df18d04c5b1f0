//! One-way time and frames per second between two threads on different processors. The ring is
//! mapped twice.
//!
//! The writer writes every byte of a frame; the reader reads one word of each cache line of the
//! frame. Both sides spin. The figures are the median of several rounds and, in brackets, the best
//! round. `two words` is the same trip with two bare atomics, which is the limit.
//!
//! `cargo bench -p stripline-ring [-- one-way|rate]`

#[cfg(all(target_os = "linux", not(loom)))]
#[path = "../tests/support/mod.rs"]
mod support;

#[cfg(all(target_os = "linux", not(loom)))]
fn main() {
    bench::run();
}

#[cfg(not(all(target_os = "linux", not(loom))))]
fn main() {}

#[cfg(all(target_os = "linux", not(loom)))]
mod bench {
    use std::hint::spin_loop;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Barrier};
    use std::thread;
    use std::time::Instant;

    use rustix::thread::{CpuSet, sched_setaffinity};
    use stripline_ring::{Fence, Mode, Reader, Writer};

    use crate::support::{Mapped, Ring};

    const ROUNDS: usize = 7;
    const CAPACITY: usize = 1 << 20;
    const BLOCKING: Mode = Mode::Blocking { depth: 0 };

    pub fn run() {
        let wanted =
            |name: &str| !std::env::args().any(|arg| ["one-way", "rate"].contains(&&*arg) && arg != name);
        if wanted("one-way") {
            print("two words, one-way", "ns", (0..ROUNDS).map(|_| two_words(500_000)));
            for fence in [Fence::Compiler, Fence::Full] {
                for len in [8, 64, 1 << 10, 8 << 10, 64 << 10] {
                    let trips = (1 << 30) / (len + 2048);
                    let label = format!("{len} B, one-way, {fence:?} fence");
                    print(&label, "ns", (0..ROUNDS).map(|_| one_way(len, trips.min(500_000), fence)));
                }
            }
        }
        if wanted("rate") {
            for fence in [Fence::Compiler, Fence::Full] {
                for len in [8, 64, 1 << 10, 8 << 10, 64 << 10] {
                    let frames = ((4 << 30) / (len + 64)).min(20_000_000);
                    let label = format!("{len} B, rate, {fence:?} fence");
                    let rates: Vec<f64> = (0..ROUNDS).map(|_| rate(len, frames, fence)).collect();
                    print(&label, "M frames/s", rates.iter().map(|rate| -rate));
                }
            }
        }
    }

    /// Prints one line. Values for which larger is better must be passed negated.
    fn print(label: &str, unit: &str, values: impl Iterator<Item = f64>) {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        println!("{label:<36} {:>9.2} {unit} ({:.2})", values[values.len() / 2].abs(), values[0].abs());
    }

    fn pin(cpu: usize) {
        let mut set = CpuSet::new();
        set.set(cpu);
        if sched_setaffinity(None, &set).is_err() {
            eprintln!("processor {cpu} is not to be had: the figures are worth little");
        }
    }

    fn two_words(trips: u64) -> f64 {
        #[repr(align(128))]
        struct CachePadded(AtomicU64);
        let words = Arc::new([CachePadded(AtomicU64::new(0)), CachePadded(AtomicU64::new(0))]);
        let echoed = words.clone();
        let echo = thread::spawn(move || {
            pin(1);
            for trip in 1..=trips {
                while echoed[0].0.load(Ordering::Acquire) != trip {
                    spin_loop();
                }
                echoed[1].0.store(trip, Ordering::Release);
            }
        });
        pin(0);
        let mut start = Instant::now();
        for trip in 1..=trips {
            if trip == trips / 10 {
                start = Instant::now();
            }
            words[0].0.store(trip, Ordering::Release);
            while words[1].0.load(Ordering::Acquire) != trip {
                spin_loop();
            }
        }
        let time = start.elapsed();
        echo.join().expect("the echo");
        time.as_nanos() as f64 / (trips - trips / 10) as f64 / 2.0
    }

    fn one_way(len: usize, trips: usize, fence: Fence) -> f64 {
        let [(_there, mut ping, mut pinged), (_back, mut pong, mut ponged)] = [ring(fence), ring(fence)];
        let echo = thread::spawn(move || {
            pin(1);
            for _ in 0..trips {
                let seen = receive(&mut pinged);
                send(&mut pong, len, seen as u8);
            }
        });
        pin(0);
        let mut start = Instant::now();
        for trip in 0..trips {
            if trip == trips / 10 {
                start = Instant::now();
            }
            send(&mut ping, len, trip as u8);
            receive(&mut ponged);
        }
        let time = start.elapsed();
        echo.join().expect("the echo");
        time.as_nanos() as f64 / (trips - trips / 10) as f64 / 2.0
    }

    fn rate(len: usize, frames: usize, fence: Fence) -> f64 {
        let (_ring, mut writer, mut reader) = ring(fence);
        let ready = Arc::new(Barrier::new(2));
        let other = ready.clone();
        let receiver = thread::spawn(move || {
            pin(1);
            other.wait();
            let mut sum = 0u64;
            for _ in 0..frames {
                sum = sum.wrapping_add(receive(&mut reader));
            }
            std::hint::black_box(sum);
        });
        pin(0);
        ready.wait();
        let start = Instant::now();
        for frame in 0..frames {
            send(&mut writer, len, frame as u8);
        }
        receiver.join().expect("the receiver");
        frames as f64 / start.elapsed().as_secs_f64() / 1e6
    }

    fn ring(fence: Fence) -> (Mapped, Writer, Reader) {
        let (mut ring, mut writer) = Mapped::make(CAPACITY, 0, 0);
        let (_, mut reader) = ring.attach(&mut writer, BLOCKING);
        writer.set_fence(fence);
        reader.set_fence(fence);
        (ring, writer, reader)
    }

    fn send(writer: &mut Writer, len: usize, byte: u8) {
        loop {
            match writer.try_reserve(len) {
                Ok(bytes) => break bytes.fill(byte),
                Err(_) => spin_loop(),
            }
        }
        writer.publish(len);
        writer.for_each_sleeper(|_| unreachable!("no side sleeps here"));
    }

    fn receive(reader: &mut Reader) -> u64 {
        let sum = loop {
            match reader.try_next() {
                Ok(Some(bytes)) => break bytes.iter().step_by(64).map(|byte| u64::from(*byte)).sum(),
                Ok(None) => spin_loop(),
                Err(error) => panic!("{error}"),
            }
        };
        reader.release();
        sum
    }
}
