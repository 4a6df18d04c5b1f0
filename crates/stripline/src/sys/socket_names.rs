//! Discovery of this user's listening sockets by their names. A name has the form `PREFIX`
//! `PID-RANDOM`, or a tag of 16 hexadecimal digits and a `-` before the process id.

use super::socket_place::SocketPlace;
use crate::error::{Error, Result};

/// Returns the last part of a name of that form, unique to this call.
pub fn unique_suffix() -> Result<String> {
    let random = getrandom::u64().map_err(|e| Error::of_system(format!("no random numbers: {e}")))?;
    Ok(format!("{}-{random:016x}", std::process::id()))
}

/// Returns whether a text from a peer may be the last part of a name, so that the peer cannot name
/// anything else by it.
pub fn is_suffix(text: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b'-';
    (1..=40).contains(&text.len()) && text.bytes().all(is_part)
}

/// Returns the names and processes of the listening sockets with that prefix, with or without a
/// tag. Any user can choose such names, so a connecting process must get the listener's credentials
/// from the kernel.
pub fn listening(prefix: &str, tagged: bool) -> Result<Vec<(String, u32)>> {
    if let SocketPlace::Folder(folder) = SocketPlace::current()? {
        let mut found: Vec<(String, u32)> = Vec::new();
        for name in folder.living()? {
            found.extend(process_in(&name, prefix, tagged).map(|pid| (name, pid)));
        }
        found.sort();
        return Ok(found);
    }
    let list = || {
        std::fs::read("/proc/net/unix")
            .map_err(|e| Error::system("cannot read /proc/net/unix, the list of sockets", e))
    };
    // The list is read twice: the kernel returns it in pages. The kernel omits a socket at a page
    // boundary when an earlier socket is closed between two pages.
    Ok(find(&[list()?, list()?], prefix, tagged))
}

/// Returns the sockets that any of the kernel's lists has with a name of exactly that form.
fn find(lists: &[impl AsRef<[u8]>], prefix: &str, tagged: bool) -> Vec<(String, u32)> {
    let mut names = Vec::new();
    for list in lists {
        let text = String::from_utf8_lossy(list.as_ref());
        names.extend(text.lines().filter_map(|line| name(line, prefix, tagged)));
    }
    names.sort();
    names.dedup();
    names
}

fn name(line: &str, prefix: &str, tagged: bool) -> Option<(String, u32)> {
    // Num RefCount Protocol Flags Type St Inode Path; flag 0x10000: it listens.
    let mut words = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let name = words.nth(3)?.strip_prefix('@')?;
    let pid = process_in(name, prefix, tagged)?;
    let listens = flags & 0x1_0000 != 0;
    listens.then(|| (name.to_string(), pid))
}

/// Returns the process in a name, if the name has exactly that form.
fn process_in(name: &str, prefix: &str, tagged: bool) -> Option<u32> {
    let is_hex = |text: &str| text.len() == 16 && text.bytes().all(|b| b.is_ascii_hexdigit());
    let mut rest = name.strip_prefix(prefix)?;
    if tagged {
        let (tag, after) = rest.split_once('-')?;
        rest = is_hex(tag).then_some(after)?;
    }
    let (pid, random) = rest.split_once('-')?;
    let pid = pid.parse().ok()?;
    is_hex(random).then_some(pid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_listening_sockets_of_the_very_form_are_asked() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 1 @stripline-links-7-42-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 1 @stripline-links-7-42-0123456789abcdef\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 2 @stripline-links-7-43-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 3 @stripline-links-8-44-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 4 @stripline-links-7-45-0123456789abcdef-1\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 5 @stripline-links-7-46-../../etc/passwd\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 6 /stripline-links-7-47-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 6 @stripline-run-7-48-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 8 @stripline-7-run-1-00112233aabbccdd-49-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 9 @stripline-7-run-1-radio-50-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 7\n\
            garbage\n";
        let find = |list: &str, prefix, tagged| find(&[list], prefix, tagged);
        let found = find(list, "stripline-links-7-", false);
        assert_eq!(found, [("stripline-links-7-42-0123456789abcdef".to_string(), 42)]);
        let tagged = find(list, "stripline-7-run-1-", true);
        assert_eq!(tagged.iter().map(|(_, pid)| *pid).collect::<Vec<_>>(), [49]);
        assert_eq!(find(list, "stripline-7-run-1-00112233aabbccdd-", false), tagged);
        assert_eq!(find(list, "stripline-7-run-1-", false), []);
    }

    #[test]
    fn a_socket_that_one_of_the_lists_leaves_out_is_found() {
        let line = |pid: u32| format!("0: 2 0 00010000 1 1 9 @stripline-links-7-{pid}-0123456789abcdef\n");
        let (first, second) = (line(42) + &line(43), line(43) + &line(44));
        let found = find(&[first, second], "stripline-links-7-", false);
        assert_eq!(found.iter().map(|(_, pid)| *pid).collect::<Vec<_>>(), [42, 43, 44]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = find(&[bytes], "stripline-links-0-", true);
        }
    }
}
