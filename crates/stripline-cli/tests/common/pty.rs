//! The command on a terminal.

use std::fs::File;
use std::io::Read;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Runs a command to its end with standard output and standard error on a terminal of that width.
/// Returns the exit code and the output, with plain line ends.
pub fn on_terminal(width: u16, mut command: Command) -> (Option<i32>, String) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = Winsize { ws_row: 25, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let peer = ioctl_tiocgptpeer(&terminal, flags).unwrap();
    command.stdout(peer.try_clone().unwrap()).stderr(peer);
    let mut child = command.spawn().unwrap();
    // It holds the last copies of the other end here.
    drop(command);
    let (mut terminal, mut output, mut part) = (File::from(terminal), Vec::new(), [0; 4096]);
    // The read fails once no process has the other end open.
    while let Ok(count @ 1..) = terminal.read(&mut part) {
        output.extend_from_slice(&part[..count]);
    }
    let code = child.wait().unwrap().code();
    (code, String::from_utf8_lossy(&output).replace("\r\n", "\n"))
}
