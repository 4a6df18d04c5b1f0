//! The part of a connection's options that the sending port keeps for all receivers.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Group, LinkOptions, Scope, TransportOptions, WaitStrategy, Watermarks};

/// The options of a sending port over one transport: the options of one connection, or the
/// strongest options of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SenderOptions {
    /// The scope of the port's sends.
    pub scope: Scope,
    /// The time for which a send waits for acknowledgements, in milliseconds.
    pub deadline_ms: u32,
    /// The size of a shared ring in bytes. Half of it limits a frame on every transport.
    pub buffer: u32,
    /// The watermarks of the sender's own queue, under scope `none`.
    pub watermarks: Watermarks,
    /// The time for which a send waits for room, in milliseconds.
    pub send_timeout_ms: Option<u32>,
    /// The strategy by which the port waits for room.
    pub wait: WaitStrategy,
    /// Whether the ring uses huge pages.
    pub huge_pages: bool,
    /// Whether all sides lock the ring into memory.
    pub locked: bool,
    /// The group that may connect in addition to the same user.
    pub group: Option<Group>,
    /// Whether samples of a type without a layout may go to a program that is built differently.
    /// The receiver's permission comes with the hello.
    #[serde(default)]
    pub any_build: bool,
    /// The tables for single transports. All connections over a transport have the same table.
    #[serde(default)]
    pub transport_options: TransportOptions,
}

impl SenderOptions {
    /// Takes the stronger of each pair of options. A deadline counts only if the connection itself
    /// waits for acknowledgements, because only then was it requested.
    #[must_use]
    pub fn merged(self, other: Self) -> Self {
        let is_awaited = |options: &Self| options.scope >= Scope::Server;
        let deadline_ms = match (is_awaited(&self), is_awaited(&other)) {
            (true, false) => self.deadline_ms,
            (false, true) => other.deadline_ms,
            _ => self.deadline_ms.max(other.deadline_ms),
        };
        Self {
            scope: self.scope.max(other.scope),
            deadline_ms,
            buffer: self.buffer.max(other.buffer),
            watermarks: self.watermarks.max(other.watermarks),
            send_timeout_ms: self.send_timeout_ms.into_iter().chain(other.send_timeout_ms).min(),
            wait: self.wait.max(other.wait),
            huge_pages: self.huge_pages || other.huge_pages,
            locked: self.locked || other.locked,
            group: self.group.or(other.group),
            any_build: self.any_build || other.any_build,
            transport_options: self.transport_options.over(other.transport_options),
        }
    }

    /// Returns the options of one transport of a port. `strongest`: the options of all connections.
    #[must_use]
    pub(crate) fn within_port(self, strongest: &Self) -> Self {
        let Self { scope, send_timeout_ms, .. } = *strongest;
        // A send that waits for one receiver waits for all of them, so every transport has to
        // acknowledge.
        let scope = if scope > Scope::Transport { scope } else { self.scope };
        Self { scope, send_timeout_ms, ..self }
    }

    /// Returns the time for which a send waits for room.
    pub fn send_timeout(&self) -> Option<Duration> {
        self.send_timeout_ms.map(|ms| Duration::from_millis(u64::from(ms)))
    }
}

impl From<&LinkOptions> for SenderOptions {
    fn from(options: &LinkOptions) -> Self {
        Self {
            scope: options.scope,
            deadline_ms: options.deadline_ms,
            buffer: options.buffer,
            watermarks: options.watermarks(),
            send_timeout_ms: options.send_timeout_ms,
            wait: options.wait,
            huge_pages: options.huge_pages,
            locked: options.locked,
            group: options.group,
            any_build: false,
            transport_options: options.transport_options.of_sender(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_counts_where_its_connection_waits_for_acknowledgements() {
        let of = |scope, deadline_ms| {
            SenderOptions::from(&LinkOptions { scope, deadline_ms, ..LinkOptions::default() })
        };
        let merged = |all: &[SenderOptions]| all.iter().copied().reduce(SenderOptions::merged).unwrap();
        let [plain, strict, patient] =
            [of(Scope::Transport, 10_000), of(Scope::Target, 1), of(Scope::Server, 50)];
        for all in [[plain, strict], [strict, plain]] {
            assert_eq!((merged(&all).scope, merged(&all).deadline_ms), (Scope::Target, 1));
        }
        assert_eq!(merged(&[strict, plain, patient]).deadline_ms, 50);
        assert_eq!(merged(&[plain, of(Scope::None, 20)]).deadline_ms, 10_000);
    }
}
