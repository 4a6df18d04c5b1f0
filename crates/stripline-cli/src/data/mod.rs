//! Data of ports and topics: `stripline echo`, `hz`, `record` and `replay`.

pub(crate) mod arguments;
mod echo;
mod hz;
mod port_file;
mod record;
mod source;

pub(crate) use echo::echo;
pub(crate) use hz::hz;
pub(crate) use record::{record, replay};

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::{SigId, low_level};
use stripline::internal::process;

use crate::Exit;
use crate::failure::Failure;
use crate::format::counted;
use crate::poll::{PollFlags, wait};

/// The longest error or name in a line of standard error.
const TEXT_MAX: usize = 300;

/// Ctrl-C and similar signals, after which the command ends in order.
#[derive(Clone, Default)]
pub(crate) struct Interrupt {
    is_set: Arc<AtomicBool>,
    /// The number of the last signal.
    signal: Arc<AtomicUsize>,
    /// The handler that ends the process at Ctrl-C after another signal.
    at_once: Option<SigId>,
}

impl Interrupt {
    /// Installs handlers for the signals that are not ignored.
    pub(crate) fn catch() -> Result<Self, Failure> {
        Self::install().map_err(Failure::new)
    }

    fn install() -> io::Result<Self> {
        let mut this = Self::default();
        for signal in process::not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
            // Ctrl-C after another signal ends the process at once. SIGTERM and SIGHUP do not,
            // because one stop may be several signals, as of systemd or of a closed terminal.
            if signal == SIGINT {
                let is_set = Arc::clone(&this.is_set);
                this.at_once = Some(signal_hook::flag::register_conditional_shutdown(signal, 1, is_set)?);
            }
            // Signal numbers are positive. The number is stored before the flag, so that a set flag
            // has a reason.
            signal_hook::flag::register_usize(signal, Arc::clone(&this.signal), signal as usize)?;
            signal_hook::flag::register(signal, Arc::clone(&this.is_set))?;
        }
        Ok(this)
    }

    /// Calls `last` when Ctrl-C after another signal ends the process.
    fn call_last(&self, last: impl Fn() + Send + 'static) -> io::Result<()> {
        let Some(at_once) = self.at_once else { return Ok(()) };
        let (mut signals, writer) = UnixStream::pair()?;
        let (this, mut count) = (self.clone(), usize::from(self.is_set()));
        // While the last lines are printed, perhaps to a full pipe, Ctrl-C ends the process.
        let is_last = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register_conditional_shutdown(SIGINT, 1, Arc::clone(&is_last))?;
        // Each signal adds a byte, after its number was stored.
        for signal in process::not_ignored(&[SIGINT, SIGTERM, SIGHUP]) {
            low_level::pipe::register(signal, writer.try_clone()?)?;
        }
        std::thread::Builder::new().spawn(move || {
            while signals.read_exact(&mut [0]).is_ok() {
                count += 1;
                if count > 1 && this.reason() == "Ctrl-C" {
                    // Relaxed: no other data depends on the flag.
                    is_last.store(true, Ordering::Relaxed);
                    last();
                    low_level::exit(1);
                }
            }
        })?;
        low_level::unregister(at_once);
        Ok(())
    }

    pub(crate) fn is_set(&self) -> bool {
        // A signal that arrives before its last handler is installed has stored its number alone.
        // Relaxed: no other data depends on the flag and the number.
        self.is_set.load(Ordering::Relaxed) || self.signal.load(Ordering::Relaxed) != 0
    }

    /// Ends the command, as a signal does.
    fn set(&self) {
        // Relaxed: no other data depends on the flag.
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// Returns the name of the signal that has ended the command.
    fn reason(&self) -> &'static str {
        // Relaxed: only the name depends on the number.
        match self.signal.load(Ordering::Relaxed).cast_signed() as i32 {
            SIGTERM => "SIGTERM",
            SIGHUP => "SIGHUP",
            _ => "Ctrl-C",
        }
    }
}

/// A pipe or a device. Reads fail once the command is interrupted.
struct InterruptibleInput {
    file: File,
    interrupt: Interrupt,
}

/// The longest time between two checks for an interrupt while a pipe is silent or full.
const SILENCE_STEP: Duration = Duration::from_millis(50);

/// The number of bytes that a pipe with room takes without a wait: the smallest page of Linux.
const PIECE_MAX: usize = 4096;

impl InterruptibleInput {
    /// Opens the file; `-` is standard input. A FIFO may be opened before it has a writer.
    fn open(path: &Path, interrupt: Interrupt) -> io::Result<Self> {
        let file = if path.as_os_str() == "-" {
            File::from(io::stdin().as_fd().try_clone_to_owned()?)
        } else {
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            OpenOptions::new().read(true).custom_flags(flags).open(path)?
        };
        Ok(Self { file, interrupt })
    }
}

impl Read for InterruptibleInput {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.interrupt.is_set() {
                return Err(io::Error::other("interrupted"));
            }
            if !wait(&self.file, PollFlags::IN, Some(SILENCE_STEP))?.is_empty() {
                match self.file.read(out) {
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                    read => return read,
                }
            }
        }
    }
}

/// Runs `work` on each item, each on a thread of its own, and returns the results in the order of
/// the items. `work` must return when it is interrupted, and must not panic.
///
/// # Errors
/// A thread cannot start. The work that had started was interrupted then, and has ended.
fn on_threads<I: Send, R: Send>(
    items: Vec<I>,
    interrupt: &Interrupt,
    work: impl Fn(I) -> R + Sync,
) -> Result<Vec<R>, Failure> {
    std::thread::scope(|scope| {
        let work = &work;
        let start = |item| std::thread::Builder::new().spawn_scoped(scope, move || work(item));
        let threads: io::Result<Vec<_>> = items.into_iter().map(start).collect();
        let threads = threads.map_err(|error| {
            interrupt.set();
            Failure::new(format!("cannot start a thread: {error}"))
        })?;
        Ok(threads.into_iter().filter_map(|thread| thread.join().ok()).collect())
    })
}

/// Writes to standard output, and waits for the reader until the command is interrupted. Returns
/// false if the reader has closed it (`| head`), or if it cannot be written.
fn write_out(text: &str, interrupt: &Interrupt, exit: &mut Exit) -> bool {
    let (out, mut rest) = (io::stdout(), text.as_bytes());
    let error = loop {
        if rest.is_empty() {
            return true;
        }
        // After an interrupt, only the room that is left gets a part of the text.
        let is_interrupted = interrupt.is_set();
        let time = if is_interrupted { Duration::ZERO } else { SILENCE_STEP };
        match wait(&out, PollFlags::OUT, Some(time)) {
            Ok(found) if found.is_empty() && is_interrupted => {
                break format!("its reader does not take the last {}", counted(rest.len() as u64, "byte"));
            }
            Ok(found) if found.is_empty() => continue,
            Ok(_) => {}
            Err(error) => break error.to_string(),
        }
        match rustix::io::write(&out, &rest[..rest.len().min(PIECE_MAX)]) {
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(Errno::PIPE) => return false,
            Err(error) => break io::Error::from(error).to_string(),
        }
    };
    report!("error: cannot write to standard output: {error}");
    *exit = Exit::Failure;
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_between_two_handlers_of_the_installation_counts() {
        let interrupt = Interrupt::default();
        assert!(!interrupt.is_set());
        interrupt.signal.store(SIGTERM.cast_unsigned() as usize, Ordering::Relaxed);
        assert!(interrupt.is_set());
        assert_eq!(interrupt.reason(), "SIGTERM");
    }
}
