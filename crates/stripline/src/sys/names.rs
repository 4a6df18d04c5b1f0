//! Finding what listens for this user, by the form of its abstract socket name: `PREFIX-UID-PID-RANDOM`.

use crate::error::{Error, Result};

/// A name of that form for this process, which nobody else has.
pub(crate) fn own(prefix: &str) -> Result<String> {
    let uid = rustix::process::geteuid().as_raw();
    let random = getrandom::u64().map_err(|e| Error::failed(format!("no random numbers: {e}")))?;
    Ok(format!("{prefix}{uid}-{}-{random:016x}", std::process::id()))
}

/// The sockets with that prefix that listen for this user: name and process. Anybody can choose such names, so whoever
/// connects must ask the kernel who listens.
pub(crate) fn listening(prefix: &str) -> Result<Vec<(String, u32)>> {
    let list = std::fs::read("/proc/net/unix")
        .map_err(|e| Error::system("cannot read /proc/net/unix, the list of sockets", e))?;
    Ok(find(&list, prefix, rustix::process::geteuid().as_raw()))
}

/// The sockets of that user in the kernel's list; only those of the very form are taken.
fn find(list: &[u8], prefix: &str, uid: u32) -> Vec<(String, u32)> {
    let text = String::from_utf8_lossy(list);
    let mut names: Vec<(String, u32)> = text.lines().filter_map(|line| name(line, prefix, uid)).collect();
    names.sort();
    names.dedup();
    names
}

fn name(line: &str, prefix: &str, uid: u32) -> Option<(String, u32)> {
    // Num RefCount Protocol Flags Type St Inode Path; flag 0x10000: it listens.
    let mut words = line.split_ascii_whitespace();
    let flags = u32::from_str_radix(words.nth(3)?, 16).ok()?;
    let name = words.nth(3)?.strip_prefix('@')?;
    let mut parts = name.strip_prefix(prefix)?.split('-');
    let (user, pid, random) = (parts.next()?, parts.next()?, parts.next()?);
    let listens = flags & 0x1_0000 != 0;
    let sound = random.len() == 16 && random.bytes().all(|b| b.is_ascii_hexdigit()) && parts.next().is_none();
    let pid = pid.parse().ok()?;
    (listens && sound && user.parse() == Ok(uid)).then(|| (name.to_string(), pid))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_listening_sockets_of_the_very_form_are_asked() {
        let list = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 1 @stripline-ps-7-42-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 1 @stripline-ps-7-42-0123456789abcdef\n\
            0000000000000000: 00000003 00000000 00000000 0001 03 2 @stripline-ps-7-43-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 3 @stripline-ps-8-44-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 4 @stripline-ps-7-45-0123456789abcdef-1\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 5 @stripline-ps-7-46-../../etc/passwd\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 6 /stripline-ps-7-47-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 6 @stripline-run-7-48-0123456789abcdef\n\
            0000000000000000: 00000002 00000000 00010000 0001 01 7\n\
            garbage\n";
        let found = find(list.as_bytes(), "stripline-ps-", 7);
        assert_eq!(found, [("stripline-ps-7-42-0123456789abcdef".to_string(), 42)]);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let _ = find(&bytes, "stripline-ps-", 0);
        }
    }
}
