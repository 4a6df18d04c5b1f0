//! The terminal while the view is open: raw keys and a page for the view. The state before is
//! restored at the end.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::termios::{OptionalActions, Termios};

use super::keys::{Key, KeyParser};
use crate::poll::{PollFlags, wait};

/// Opens the second page of the terminal, hides the cursor, and turns line wrapping off.
const OPEN: &str = "\x1b[?1049h\x1b[?25l\x1b[?7l";
const CLOSE: &str = "\x1b[?2026l\x1b[?7h\x1b[?25h\x1b[?1049l";
/// Begin and end a picture that the terminal shows at once. Other terminals ignore both sequences.
const BEGIN: &str = "\x1b[?2026h";
const END: &str = "\x1b[?2026l";
/// The size assumed if the terminal does not report a size.
const SIZE_DEFAULT: (u16, u16) = (80, 24);
/// The largest size that is drawn.
const SIZE_MAX: u16 = 1000;

/// The longest wait until the terminal takes the sequence that restores it.
const CLOSE_TIME: Duration = Duration::from_secs(1);

/// The state of the terminal that must be restored. Empty after the restore.
static BEFORE: Mutex<Option<Before>> = Mutex::new(None);

/// The state of the terminal before the view.
struct Before {
    settings: Termios,
    output: File,
}

/// The terminal, which is restored when this value is dropped, and before the message of a panic.
pub(super) struct RawTerminal {
    parser: KeyParser,
    output: File,
    drawn: String,
    /// Bytes of the picture that the terminal has not taken yet.
    unwritten: Vec<u8>,
}

/// Keys, or the end of the terminal.
pub(super) enum Input {
    Keys(Vec<Key>),
    /// The terminal has hung up.
    End,
}

impl RawTerminal {
    /// Takes over the terminal.
    ///
    /// # Errors
    /// The terminal does not accept the settings.
    pub fn open() -> io::Result<Self> {
        let settings = rustix::termios::tcgetattr(io::stdin())?;
        let mut raw = settings.clone();
        raw.make_raw();
        let output = output()?;
        let before = Before { settings, output: output.try_clone()? };
        let of_panics = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            restore();
            of_panics(panic);
        }));
        *BEFORE.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        let unwritten = OPEN.as_bytes().to_vec();
        let mut terminal = Self { parser: KeyParser::default(), output, drawn: String::new(), unwritten };
        rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        terminal.write()?;
        Ok(terminal)
    }

    /// Returns the columns and rows of the terminal.
    pub fn size() -> (u16, u16) {
        let size = rustix::termios::tcgetwinsize(io::stdout()).map(|size| (size.ws_col, size.ws_row));
        let (columns, rows) =
            size.ok().filter(|(columns, rows)| *columns > 0 && *rows > 0).unwrap_or(SIZE_DEFAULT);
        (columns.min(SIZE_MAX), rows.min(SIZE_MAX))
    }

    /// Draws lines, which must have the width of the terminal, from the first row on. Writes
    /// nothing if the lines have not changed, or while the terminal has not taken the previous
    /// lines.
    ///
    /// # Errors
    /// The terminal cannot be written to.
    pub fn draw(&mut self, lines: &[String]) -> io::Result<()> {
        if self.unwritten.is_empty() {
            let rows = (1..).zip(lines).map(|(row, line)| format!("\x1b[{row};1H{line}"));
            let text: String = rows.collect();
            if text != self.drawn {
                self.unwritten.extend_from_slice(format!("{BEGIN}{text}{END}").as_bytes());
                self.drawn = text;
            }
        }
        self.write()
    }

    /// Writes the bytes that the terminal takes without a wait.
    fn write(&mut self) -> io::Result<()> {
        while !self.unwritten.is_empty() {
            match self.output.write(&self.unwritten) {
                Ok(written) => drop(self.unwritten.drain(..written)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Waits for keys, at most for `time`.
    ///
    /// # Errors
    /// The system cannot wait.
    pub fn input(&mut self, time: Duration) -> io::Result<Input> {
        let found = wait(io::stdin(), PollFlags::IN, Some(time))?;
        if found.is_empty() {
            return Ok(Input::Keys(self.parser.after_pause().into_iter().collect()));
        }
        // A terminal that has hung up is always ready to read.
        if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            return Ok(Input::End);
        }
        let mut bytes = [0; 256];
        Ok(match rustix::io::read(io::stdin(), &mut bytes) {
            Ok(0) => Input::End,
            Ok(count) => Input::Keys(self.parser.keys(&bytes[..count])),
            Err(Errno::INTR | Errno::AGAIN) => Input::Keys(Vec::new()),
            Err(_) => Input::End,
        })
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Opens the terminal behind standard output again, with non-blocking writes. The descriptor of
/// standard output cannot be changed for this, because the shell shares it.
fn output() -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags((OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed());
    // The terminal of another user cannot be opened again. Then each draw waits until the terminal
    // takes the bytes.
    options.open("/proc/self/fd/1").or_else(|_| Ok(io::stdout().as_fd().try_clone_to_owned()?.into()))
}

/// Restores the terminal, once. Has no effect on a terminal that has hung up.
fn restore() {
    let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(Before { settings, mut output }) = before else { return };
    let (mut rest, deadline) = (CLOSE.as_bytes(), Instant::now() + CLOSE_TIME);
    while !rest.is_empty() {
        match output.write(rest) {
            Ok(written) => rest = &rest[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let remaining = deadline.saturating_duration_since(Instant::now());
                if remaining.is_zero() || wait(&output, PollFlags::OUT, Some(remaining)).is_err() {
                    break;
                }
            }
            Err(_) => break,
        }
    }
    let _ = rustix::termios::tcsetattr(io::stdin(), OptionalActions::Now, &settings);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
    use rustix::termios::LocalModes;
    use std::io::Read;
    use std::process::{Command, Stdio};

    /// Set in the process that panics.
    const VARIABLE: &str = "STRIPLINE_TEST_OF_A_PANIC";

    #[test]
    fn a_panic_restores_the_terminal_before_its_message() {
        if std::env::var_os(VARIABLE).is_some() {
            let _terminal = RawTerminal::open().unwrap();
            panic!("that is what it was for");
        }
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let user = openpt(flags).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let device = ioctl_tiocgptpeer(&user, flags).unwrap();
        let end = || Stdio::from(device.try_clone().unwrap());
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = concat!(module_path!(), "::a_panic_restores_the_terminal_before_its_message");
        command.args(["--exact", name.split_once("::").unwrap().1, "--nocapture"]).env(VARIABLE, "1");
        let mut child = command.stdin(end()).stdout(end()).stderr(end()).spawn().unwrap();
        drop(command);
        let reader = std::thread::spawn(move || {
            let (mut user, mut output, mut part) = (File::from(user), Vec::new(), [0; 4096]);
            // The read fails once no process has the other end open.
            while let Ok(count @ 1..) = user.read(&mut part) {
                output.extend_from_slice(&part[..count]);
            }
            String::from_utf8_lossy(&output).into_owned()
        });
        assert_eq!(child.wait().unwrap().code(), Some(101));
        let modes = rustix::termios::tcgetattr(&device).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ICANON | LocalModes::ECHO), "{modes:?}");
        drop(device);
        let output = reader.join().unwrap();
        let position = |words: &str| output.find(words).unwrap_or_else(|| panic!("{words:?}: {output:?}"));
        let order = [OPEN, CLOSE, "that is what it was for"].map(position);
        assert!(order.is_sorted(), "{output:?}");
    }
}
