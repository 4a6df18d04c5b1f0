//! The command on a terminal.

use std::fs::File;
use std::io::Read;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, ioctl_tiocgptpeer, openpt, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// Opens a terminal of that size. Returns the user's end and the programs' end.
pub fn open(width: u16, height: u16) -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    tcsetwinsize(&terminal, size(width, height)).unwrap();
    let peer = ioctl_tiocgptpeer(&terminal, flags).unwrap();
    (terminal.into(), peer.into())
}

/// Returns the size of a terminal in characters.
pub fn size(width: u16, height: u16) -> Winsize {
    Winsize { ws_row: height, ws_col: width, ws_xpixel: 0, ws_ypixel: 0 }
}

/// Runs a command to the end with standard output and standard error on a terminal of that width.
/// Returns the exit code and the output, with plain line ends.
pub fn on_terminal(width: u16, mut command: Command) -> (Option<i32>, String) {
    let (mut terminal, peer) = open(width, 25);
    command.stdout(peer.try_clone().unwrap()).stderr(peer);
    let mut child = command.spawn().unwrap();
    // The command holds the last copies of the programs' end in this process.
    drop(command);
    let (mut output, mut part) = (Vec::new(), [0; 4096]);
    // The read fails once no process has the other end open.
    while let Ok(count @ 1..) = terminal.read(&mut part) {
        output.extend_from_slice(&part[..count]);
    }
    let code = child.wait().unwrap().code();
    (code, String::from_utf8_lossy(&output).replace("\r\n", "\n"))
}
