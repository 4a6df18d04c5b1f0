//! The tables of single transports, for example `[connection.udp]` and `[topic.NAME.udp]`.

use std::str::FromStr;

use serde_json::json;
use stripline::terms::{Interface, Repair, TcpOptions, TransportOptions, UdpOptions, ZenohOptions};

use super::{Code, TableReader, quoted, shape};

impl TableReader<'_, '_> {
    /// Reads the tables of all transports.
    pub(super) fn transport_options(&mut self) -> TransportOptions {
        TransportOptions {
            tcp: self.transport_table("tcp", |table| table.tcp(), TcpOptions::check),
            udp: self.transport_table("udp", |table| table.udp(), UdpOptions::check),
            zenoh: self.transport_table("zenoh", |table| table.zenoh(), ZenohOptions::check),
            corba: self.transport_table("corba", |table| table.tcp(), TcpOptions::check),
        }
    }

    /// Reads the table of one transport, and checks that the values fit together.
    fn transport_table<T>(
        &mut self,
        name: &'static str,
        read: fn(&mut TableReader) -> T,
        check: fn(&T) -> Result<(), String>,
    ) -> Option<T> {
        let item = self.value(name, || shape(&[], read))?;
        let mut table = self.table(item, name)?;
        let options = read(&mut table);
        table.unknown_keys();
        if let Err(problem) = check(&options) {
            let (what, remedy) = problem.split_once("; ").unwrap_or((&problem, ""));
            let place = table.places.iter().find(|(key, _)| what.starts_with(**key));
            let place = place.map_or_else(|| table.place(item.span()), |(_, place)| place.clone());
            table.found.error(Code::BadValue, &place, what, remedy);
        }
        Some(options)
    }

    fn tcp(&mut self) -> TcpOptions {
        TcpOptions { insecure: self.truth("insecure"), bind: self.bind() }
    }

    fn udp(&mut self) -> UdpOptions {
        const GROUP: &str = "write a multicast address and a port, as \"239.1.2.3:5000\"";
        const INTERFACE: &str = "write the name of an interface, or an address that it has";
        UdpOptions {
            insecure: self.truth("insecure"),
            bind: self.bind(),
            repair: self.word("repair", &Repair::ALL, Repair::as_str).unwrap_or_default(),
            reorder_ms: self.number("reorder-ms", 0, UdpOptions::REORDER_MS_MAX),
            buffer: self.number("buffer", UdpOptions::BUFFER_MIN.into(), UdpOptions::BUFFER_MAX),
            ttl: self.number("ttl", 1, u8::MAX.into()),
            group: self.parsed("group", GROUP),
            interface: self.parsed::<Interface>("interface", INTERFACE),
            pace_mbps: self.number("pace-mbps", 1, UdpOptions::PACE_MBPS_MAX),
        }
    }

    fn zenoh(&mut self) -> ZenohOptions {
        const ROUTER: &str = "write the address and the port of a router, as \"192.0.2.1:7447\"";
        ZenohOptions {
            insecure: self.truth("insecure"),
            bind: self.bind(),
            router: self.parsed("router", ROUTER),
        }
    }

    fn bind(&mut self) -> Option<std::net::IpAddr> {
        self.parsed("bind", "write an IP address of this host, as \"192.0.2.1\"")
    }

    /// Reads a text that is an address or a name.
    fn parsed<T: FromStr>(&mut self, key: &'static str, remedy: &str) -> Option<T> {
        let text = self.text_shaped(key, || json!({ "type": "string" }))?;
        let value = text.value.parse().ok();
        if value.is_none() {
            let message = format!("`{key}` cannot be {}", quoted(&text.value));
            self.found.error(Code::BadValue, &text.place, message, remedy);
        }
        value
    }
}
