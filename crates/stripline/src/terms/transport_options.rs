//! The options of single transports. Each transport has a separate table, such as
//! `[connection.udp]`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV4};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::options::words;
use super::{Flow, LinkOptions, Scope};

/// The tables of a connection for single transports; `None`: the connection has no such table.
///
/// ```
/// use stripline::terms::{LinkOptions, TransportOptions, UdpOptions};
///
/// let udp = Some(UdpOptions { buffer: Some(1 << 20), ..UdpOptions::default() });
/// let transport_options = TransportOptions { udp, ..TransportOptions::default() };
/// let options = LinkOptions { transport_options, ..LinkOptions::default() };
/// assert_eq!(options.check(), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TransportOptions {
    /// The options of `tcp`.
    pub tcp: Option<TcpOptions>,
    /// The options of `udp`.
    pub udp: Option<UdpOptions>,
    /// The options of `zenoh`.
    pub zenoh: Option<ZenohOptions>,
    /// The options of `corba`, which are the same as the options of `tcp`.
    pub corba: Option<TcpOptions>,
}

impl TransportOptions {
    /// Returns the names of the transports that have a table here.
    ///
    /// ```
    /// use stripline::terms::{TcpOptions, TransportOptions};
    ///
    /// let tcp = Some(TcpOptions::default());
    /// let options = TransportOptions { tcp, ..TransportOptions::default() };
    /// assert_eq!(options.tables().collect::<Vec<_>>(), ["tcp"]);
    /// ```
    pub fn tables(&self) -> impl Iterator<Item = &'static str> {
        let tables = [
            ("tcp", self.tcp.is_some()),
            ("udp", self.udp.is_some()),
            ("zenoh", self.zenoh.is_some()),
            ("corba", self.corba.is_some()),
        ];
        tables.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name)
    }

    /// Returns the tables of `self`, and tables of `base` for the other transports.
    pub(crate) fn over(self, base: Self) -> Self {
        Self {
            tcp: self.tcp.or(base.tcp),
            udp: self.udp.or(base.udp),
            zenoh: self.zenoh.or(base.zenoh),
            corba: self.corba.or(base.corba),
        }
    }

    /// Returns the options that the sending port uses. All receivers of the port share them.
    ///
    /// ```
    /// use stripline::terms::{Repair, TransportOptions, UdpOptions};
    ///
    /// let udp = Some(UdpOptions { repair: Repair::Never, ..UdpOptions::default() });
    /// let options = TransportOptions { udp, ..TransportOptions::default() };
    /// assert_eq!(options.of_sender().udp, Some(UdpOptions::default()));
    /// ```
    #[must_use]
    pub fn of_sender(self) -> Self {
        let default = UdpOptions::default();
        let (repair, reorder_ms, buffer) = (default.repair, default.reorder_ms, default.buffer);
        Self { udp: self.udp.map(|udp| UdpOptions { repair, reorder_ms, buffer, ..udp }), ..self }
    }

    /// Checks each table. An error begins with the key that it concerns.
    pub(super) fn check(&self) -> Result<(), String> {
        self.tcp.map_or(Ok(()), |tcp| tcp.check())?;
        self.udp.map_or(Ok(()), |udp| udp.check())?;
        self.zenoh.map_or(Ok(()), |zenoh| zenoh.check())?;
        self.corba.map_or(Ok(()), |corba| corba.check())
    }
}

/// The options of `tcp` and of `corba`: the tables `[connection.tcp]` and `[connection.corba]`.
///
/// ```
/// use stripline::terms::TcpOptions;
///
/// let options = TcpOptions { bind: Some([10, 0, 0, 1].into()), ..TcpOptions::default() };
/// assert!(options.check().unwrap_err().contains("insecure"));
/// assert_eq!(TcpOptions { insecure: true, ..options }.check(), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct TcpOptions {
    /// Whether the link may leave the host, although it is neither authenticated nor encrypted.
    pub insecure: bool,
    /// The address to which the sending port is bound; `None`: the address of the loopback
    /// interface.
    pub bind: Option<IpAddr>,
}

impl TcpOptions {
    /// Checks options that depend on each other.
    ///
    /// # Errors
    /// A sentence that begins with the key.
    pub fn check(&self) -> Result<(), String> {
        check_bind(self.bind, self.insecure)
    }
}

/// The options of `udp`: the table `[connection.udp]`.
///
/// ```
/// use stripline::terms::{Repair, UdpOptions};
///
/// assert_eq!(UdpOptions::default().repair, Repair::Needed);
/// let options = UdpOptions { reorder_ms: Some(1001), ..UdpOptions::default() };
/// assert_eq!(options.check().unwrap_err(), "reorder-ms is 1001; it must be from 0 to 1000");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct UdpOptions {
    /// Whether the link may leave the host, although it is neither authenticated nor encrypted.
    pub insecure: bool,
    /// The address to which the sending port is bound; `None`: the address of the loopback
    /// interface.
    pub bind: Option<IpAddr>,
    /// Whether lost datagrams are sent again.
    pub repair: Repair,
    /// The time for which the receiver waits for a late datagram, in milliseconds, at most
    /// [`UdpOptions::REORDER_MS_MAX`]; `None`: 1.
    pub reorder_ms: Option<u32>,
    /// The size of the receiver's socket buffer in bytes, from [`UdpOptions::BUFFER_MIN`] to
    /// [`UdpOptions::BUFFER_MAX`]; `None`: a size that is usually allowed.
    pub buffer: Option<u32>,
    /// The number of networks that a datagram to the group may cross, 1 to 255; `None`: 1.
    pub ttl: Option<u8>,
    /// The multicast group that reaches all receivers with one send; `None`: each receiver gets a
    /// separate copy.
    pub group: Option<SocketAddrV4>,
    /// The interface that leads to the group; `None`: the interface of the system's route.
    pub interface: Option<Interface>,
    /// The highest rate at which the sending port sends, in megabits per second, 1 to
    /// [`UdpOptions::PACE_MBPS_MAX`]; `None`: as fast as possible.
    pub pace_mbps: Option<u32>,
}

impl UdpOptions {
    /// The longest wait for a late datagram, in milliseconds.
    ///
    /// ```
    /// assert_eq!(stripline::terms::UdpOptions::REORDER_MS_MAX, 1000);
    /// ```
    pub const REORDER_MS_MAX: u32 = 1000;
    /// The smallest socket buffer, in bytes.
    ///
    /// ```
    /// assert_eq!(stripline::terms::UdpOptions::BUFFER_MIN, 4096);
    /// ```
    pub const BUFFER_MIN: u32 = 4096;
    /// The largest socket buffer, in bytes.
    ///
    /// ```
    /// assert_eq!(stripline::terms::UdpOptions::BUFFER_MAX, 1 << 30);
    /// ```
    pub const BUFFER_MAX: u32 = 1 << 30;
    /// The highest pace, in megabits per second.
    ///
    /// ```
    /// assert_eq!(stripline::terms::UdpOptions::PACE_MBPS_MAX, 1_000_000);
    /// ```
    pub const PACE_MBPS_MAX: u32 = 1_000_000;

    /// Checks the numbers against their ranges, and options that depend on each other.
    ///
    /// # Errors
    /// A sentence that begins with the key.
    pub fn check(&self) -> Result<(), String> {
        check_bind(self.bind, self.insecure)?;
        for (key, value, min, max) in [
            ("reorder-ms", self.reorder_ms, 0, Self::REORDER_MS_MAX),
            ("buffer", self.buffer, Self::BUFFER_MIN, Self::BUFFER_MAX),
            ("ttl", self.ttl.map(u32::from), 1, 255),
            ("pace-mbps", self.pace_mbps, 1, Self::PACE_MBPS_MAX),
        ] {
            if let Some(value) = value.filter(|value| !(min..=max).contains(value)) {
                return Err(format!("{key} is {value}; it must be from {min} to {max}"));
            }
        }
        let Some(group) = self.group else {
            return match self.interface {
                Some(interface) => Err(format!(
                    "interface is {interface}, but there is no group that it would reach; add `group`, or \
                     name an address of the interface with `bind`"
                )),
                None => Ok(()),
            };
        };
        if !group.ip().is_multicast() || group.port() == 0 {
            return Err(format!(
                "group is {group}; it must be a multicast address and a port, as \"239.1.2.3:5000\""
            ));
        }
        if !self.insecure && !self.interface.is_some_and(Interface::is_loopback) {
            return Err(format!(
                "group is {group}, which leaves the host, and nothing there is authenticated or encrypted; \
                 write insecure = true if that is meant, or interface = \"lo\""
            ));
        }
        Ok(())
    }

    /// Returns the contradiction between these options and other options of the connection, and the
    /// remedy.
    pub(crate) fn conflict(&self, options: &LinkOptions) -> Option<(String, &'static str)> {
        if let (Some(bind), true) = (self.bind, options.group.is_some()) {
            let rule = format!("group with bind {bind} (the kernel does not provide the peer's credentials)");
            return Some((rule, "leave out one of them"));
        }
        if self.repair == Repair::Needed {
            return None;
        }
        if options.scope > Scope::Transport {
            let rule =
                format!("scope {} with repair = \"never\" (a lost packet is never answered)", options.scope);
            return Some((rule, "use repair = \"needed\", or scope none or transport"));
        }
        if options.flow != Flow::Transport {
            let rule =
                format!("flow {} with repair = \"never\" (a lost packet is never counted)", options.flow);
            return Some((rule, "use repair = \"needed\", or flow transport"));
        }
        None
    }
}

/// The options of `zenoh`: the table `[connection.zenoh]`.
///
/// ```
/// use stripline::terms::ZenohOptions;
///
/// let options = ZenohOptions { router: "192.0.2.1:7447".parse().ok(), ..ZenohOptions::default() };
/// assert!(options.check().unwrap_err().starts_with("router is 192.0.2.1:7447, which leaves"));
/// assert_eq!(ZenohOptions { insecure: true, ..options }.check(), Ok(()));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct ZenohOptions {
    /// Whether the link may leave the host, although it is neither authenticated nor encrypted.
    pub insecure: bool,
    /// The address to which the sending port's signalling is bound; `None`: a Unix socket.
    pub bind: Option<IpAddr>,
    /// The router through which this side's packets go, with address and port; `None`: both sides
    /// find each other directly.
    pub router: Option<SocketAddr>,
}

impl ZenohOptions {
    /// Checks options that depend on each other.
    ///
    /// # Errors
    /// A sentence that begins with the key.
    pub fn check(&self) -> Result<(), String> {
        check_bind(self.bind, self.insecure)?;
        let Some(router) = self.router else { return Ok(()) };
        if router.ip().is_unspecified() || router.ip().is_multicast() || router.port() == 0 {
            return Err(format!(
                "router is {router}; it must be an address and a port, as \"192.0.2.1:7447\""
            ));
        }
        if !self.insecure && !router.ip().is_loopback() {
            return Err(format!(
                "router is {router}, which leaves the host, and nothing there is authenticated or encrypted; \
                 write insecure = true if that is meant"
            ));
        }
        Ok(())
    }
}

/// Checks the address to which a sending port is bound.
fn check_bind(bind: Option<IpAddr>, insecure: bool) -> Result<(), String> {
    let Some(bind) = bind else { return Ok(()) };
    if bind.is_unspecified() {
        return Err(format!("bind is {bind}, which means all addresses; name one address of this host"));
    }
    if bind.is_multicast() || bind == Ipv4Addr::BROADCAST {
        return Err(format!("bind is {bind}, which is not an address of a host; name one of this host"));
    }
    if !insecure && !bind.is_loopback() {
        return Err(format!(
            "bind is {bind}, which leaves the host, and nothing there is authenticated or encrypted; write \
             insecure = true if that is meant"
        ));
    }
    Ok(())
}

/// A rule for lost datagrams: whether they are sent again.
///
/// ```
/// use stripline::terms::Repair;
///
/// assert_eq!("never".parse(), Ok(Repair::Never));
/// assert_eq!(Repair::ALL.map(Repair::as_str), ["needed", "never"]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Repair {
    /// Lost datagrams are repaired if the connection must not lose any: under `block`, and if a
    /// send waits for receivers.
    #[default]
    Needed,
    /// Lost datagrams are never repaired, but reported in their place, even under `block`.
    Never,
}

impl Repair {
    /// Both rules, the default first.
    pub const ALL: [Self; 2] = [Self::Needed, Self::Never];

    /// Returns the word used in a waveform file.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Needed => "needed",
            Self::Never => "never",
        }
    }
}

words!(Repair, "a kind of repair");

/// A network interface, given by a name or by an address.
///
/// ```
/// use stripline::terms::Interface;
///
/// assert_eq!("eth0".parse::<Interface>().unwrap().to_string(), "eth0");
/// assert!("192.0.2.1".parse::<Interface>().unwrap().name().is_none());
/// assert!("a name that is too long".parse::<Interface>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Interface(Named);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Named {
    Address(IpAddr),
    /// The bytes of the name, followed by zeros.
    Name([u8; Interface::NAME_MAX]),
}

impl Interface {
    /// The longest name in bytes (`IFNAMSIZ` without the terminating zero).
    const NAME_MAX: usize = 15;

    /// Returns the name of the interface; `None`: it is given by an address.
    pub fn name(&self) -> Option<&str> {
        match &self.0 {
            Named::Address(_) => None,
            Named::Name(bytes) => {
                let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
                std::str::from_utf8(&bytes[..end]).ok()
            }
        }
    }

    /// Returns the address by which the interface is given.
    ///
    /// ```
    /// let interface: stripline::terms::Interface = "192.0.2.1".parse().unwrap();
    /// assert_eq!(interface.address(), Some([192, 0, 2, 1].into()));
    /// ```
    pub fn address(&self) -> Option<IpAddr> {
        match self.0 {
            Named::Address(address) => Some(address),
            Named::Name(_) => None,
        }
    }

    /// Returns whether packets to the interface stay on the host.
    pub(crate) fn is_loopback(self) -> bool {
        self.address().is_some_and(|address| address.is_loopback()) || self.name() == Some("lo")
    }
}

impl FromStr for Interface {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self(Named::Address(address)));
        }
        let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b'/' && byte != b':';
        if text.is_empty() || text.len() > Self::NAME_MAX || !text.bytes().all(is_name) {
            return Err(format!(
                "`{text:.64}` is not an interface; write its name or an address that it has"
            ));
        }
        let mut bytes = [0; Self::NAME_MAX];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        Ok(Self(Named::Name(bytes)))
    }
}

impl TryFrom<String> for Interface {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Interface> for String {
    fn from(interface: Interface) -> Self {
        interface.to_string()
    }
}

impl fmt::Display for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Named::Address(address) => address.fmt(f),
            Named::Name(_) => f.write_str(self.name().unwrap_or_default()),
        }
    }
}

impl fmt::Debug for Interface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_begins_with_its_key() {
        let udp = UdpOptions::default();
        let group = Some("239.1.2.3:5000".parse().unwrap());
        let interface = |name: &str| Some(name.parse().unwrap());
        for (options, text) in [
            (UdpOptions { bind: Some([0; 4].into()), ..udp }, "bind is 0.0.0.0, which means all"),
            (UdpOptions { bind: Some([0; 16].into()), ..udp }, "bind is ::, which means all"),
            (UdpOptions { bind: Some([224, 0, 0, 1].into()), ..udp }, "bind is 224.0.0.1, which is not"),
            (UdpOptions { bind: Some([10, 0, 0, 1].into()), ..udp }, "bind is 10.0.0.1, which leaves"),
            (UdpOptions { buffer: Some(4095), ..udp }, "buffer is 4095"),
            (UdpOptions { ttl: Some(0), ..udp }, "ttl is 0"),
            (UdpOptions { pace_mbps: Some(0), ..udp }, "pace-mbps is 0"),
            (UdpOptions { interface: interface("eth0"), ..udp }, "interface is eth0, but there is no"),
            (UdpOptions { group, ..udp }, "group is 239.1.2.3:5000, which leaves"),
            (UdpOptions { group, interface: interface("eth0"), ..udp }, "group is 239.1.2.3:5000, which"),
            (
                UdpOptions { group: Some("10.1.2.3:5000".parse().unwrap()), ..udp },
                "group is 10.1.2.3:5000; it",
            ),
            (UdpOptions { group: Some("239.1.2.3:0".parse().unwrap()), ..udp }, "group is 239.1.2.3:0; it"),
        ] {
            let error = options.check().unwrap_err();
            assert!(error.starts_with(text), "{error}");
        }
        for options in [
            UdpOptions { bind: Some([127, 0, 0, 2].into()), ..udp },
            UdpOptions { bind: Some([10, 0, 0, 1].into()), insecure: true, ..udp },
            UdpOptions { group, interface: interface("lo"), ..udp },
            UdpOptions { group, interface: interface("127.0.0.1"), ..udp },
            UdpOptions { group, insecure: true, ttl: Some(255), ..udp },
        ] {
            assert_eq!(options.check(), Ok(()));
        }
    }

    #[test]
    fn what_is_never_repaired_is_not_waited_for() {
        let never = UdpOptions { repair: Repair::Never, ..UdpOptions::default() };
        let with = |scope, flow| never.conflict(&LinkOptions { scope, flow, ..LinkOptions::default() });
        assert!(with(Scope::Transport, Flow::Transport).is_none());
        assert!(with(Scope::Server, Flow::Transport).unwrap().0.contains("scope server"));
        assert!(with(Scope::None, Flow::Credit).unwrap().0.contains("flow credit"));
        assert!(UdpOptions::default().conflict(&LinkOptions::default()).is_none());
    }

    #[test]
    fn an_interface_is_read_back() {
        for text in ["lo", "enp0s31f6", "exactly15bytes!", "::1", "192.0.2.1"] {
            let interface: Interface = text.parse().unwrap();
            assert_eq!(String::from(interface), text);
            assert_eq!(interface.name().is_some(), interface.address().is_none());
        }
        for text in ["", "a/b", "a b", "sixteen bytes!!!", "eth0:1"] {
            assert!(text.parse::<Interface>().is_err(), "{text}");
        }
    }
}
