//! Addresses of TCP in different spellings. omniORB shares a connection between references with the
//! same text, so each connection needs a different spelling.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use stripline::carrier::mutex::lock;
use stripline::{Error, Result};

/// The spellings in use, and the number of the next one to try.
static IN_USE: Mutex<(BTreeSet<(SocketAddr, u32)>, u32)> = Mutex::new((BTreeSet::new(), 0));
/// The maximum number of spellings of an address.
const SPELLINGS_MAX: u32 = 4096;
/// The number of choices for the zeros before a part of an IPv4 address: 0 to 7 zeros.
const ZEROS_MAX: u32 = 8;

/// An address with a spelling that no other address in use has.
pub(super) struct SpelledAddress {
    address: SocketAddr,
    number: u32,
    text: String,
}

impl SpelledAddress {
    /// Finds a spelling for an address.
    ///
    /// # Errors
    /// All spellings are in use.
    pub(super) fn new(address: SocketAddr) -> Result<Self> {
        let (in_use, next) = &mut *lock(&IN_USE);
        for _ in 0..SPELLINGS_MAX {
            let number = *next;
            *next = (*next + 1) % SPELLINGS_MAX;
            if let Some(text) = spelling(address.ip(), number)
                && in_use.insert((address, number))
            {
                return Ok(Self { address, number, text: format!("{text}:{}", address.port()) });
            }
        }
        Err(Error::of_system(format!(
            "omniORB has no further connection of its own to {address}: there are as many as that address has spellings"
        )))
    }
}

impl fmt::Display for SpelledAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Drop for SpelledAddress {
    fn drop(&mut self) {
        lock(&IN_USE).0.remove(&(self.address, self.number));
    }
}

/// Returns the `number`th spelling; `None`: the address has fewer spellings. The spellings differ
/// in the zeros before each part. The parts of an IPv4 address are in the hexadecimal form of
/// `inet_aton`.
fn spelling(ip: IpAddr, number: u32) -> Option<String> {
    let mut left = number;
    let mut zeros = |most: u32| {
        let zeros = left % most;
        left /= most;
        "0".repeat(zeros as usize)
    };
    let text = match ip {
        IpAddr::V4(ip) => ip.octets().map(|octet| format!("0x{}{octet:x}", zeros(ZEROS_MAX))).join("."),
        IpAddr::V6(ip) => {
            let part = |part: u16| {
                let digits = format!("{part:x}");
                format!("{}{digits}", zeros(5 - digits.len() as u32))
            };
            format!("[{}]", ip.segments().map(part).join(":"))
        }
    };
    (left == 0).then_some(text)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn each_number_has_a_spelling_of_its_own() {
        let v4: IpAddr = [10, 0, 255, 7].into();
        let texts: BTreeSet<_> = (0..SPELLINGS_MAX).map(|number| spelling(v4, number).unwrap()).collect();
        assert_eq!(texts.len() as u32, SPELLINGS_MAX);
        assert!(texts.contains("0xa.0x0.0xff.0x7") && texts.contains("0x0a.0x000.0xff.0x7"), "{texts:?}");
        assert_eq!(spelling(v4, SPELLINGS_MAX), None);
        for ip in [Ipv6Addr::LOCALHOST, "2001:db8:1234:1234:1234:1234:1234:1234".parse().unwrap()] {
            let texts: Vec<_> = (0..SPELLINGS_MAX).map_while(|number| spelling(ip.into(), number)).collect();
            assert!(texts.len() > 1);
            assert_eq!(texts.iter().collect::<BTreeSet<_>>().len(), texts.len());
            for text in texts {
                assert_eq!(text.trim_matches(['[', ']']).parse(), Ok(ip), "{text}");
            }
        }
    }

    #[test]
    fn a_spelling_is_in_use_until_its_drop() {
        let address: SocketAddr = "[1234:1234:1234:1234:1234:1234:1234:0]:9".parse().unwrap();
        let kept: Vec<_> = (0..4).map(|_| SpelledAddress::new(address).unwrap()).collect();
        let error = SpelledAddress::new(address).err().unwrap().to_string();
        assert!(error.contains("no further connection"), "{error}");
        let text = kept[2].to_string();
        drop(kept);
        assert!(text.starts_with("[1234:") && text.ends_with("]:9"), "{text}");
        SpelledAddress::new(address).unwrap();
    }
}
