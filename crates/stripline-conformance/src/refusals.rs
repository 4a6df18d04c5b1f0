//! The rules that each transport refuses. A transport without a row in the table has the refusals
//! of a carrier, and the capabilities decide about groups. With a refusal, a test asserts the
//! refusal; without a refusal, the test asserts that the transport keeps the rule.

use std::fmt;

use Refusal::*;

use crate::support::bind;

/// A rule that a transport does not keep, or that does not apply to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Locked memory and huge pages.
    MemoryOptions,
    /// A port that is open to a group of users.
    Group,
    /// A scope for one packet that is stronger than the scope of the connection.
    StrongerScope,
    /// A peer in another process.
    OtherProcesses,
    /// A successor's gap that starts at the last packet that a dead receiver had taken.
    ExactSuccessor,
    /// Repair by a process other than the sender's.
    Repair,
    /// Frames that a peer forges on the signalling socket. For other transports, `uds` tests this
    /// with the same code, or a ring's own tests cover all words that a peer can write.
    FramesOnTheSocket,
    /// Datagrams and records that a peer forges in a session. Other transports have no session, or
    /// a session of a group, which has separate tests.
    Session,
    /// Memory shared with another process.
    SharedMemory,
    /// A way of accepting strangers that differs from `uds`, where a flood is tested.
    OwnListener,
}

/// The refusals of each transport that is not a plain carrier.
const TABLE: [(&str, &[Refusal]); 9] = [
    ("inproc", &[OtherProcesses, FramesOnTheSocket, Session, SharedMemory, OwnListener]),
    ("shm", &[FramesOnTheSocket, Session]),
    ("uds", &[MemoryOptions, StrongerScope, ExactSuccessor, Session, SharedMemory]),
    ("tcp", &[MemoryOptions, StrongerScope, ExactSuccessor, Session, SharedMemory, OwnListener]),
    ("udp", &[MemoryOptions, StrongerScope, ExactSuccessor, FramesOnTheSocket, SharedMemory, OwnListener]),
    ("zeromq", UNREPAIRED),
    ("zenoh", UNREPAIRED),
    ("dds", UNREPAIRED),
    (
        "lossy",
        &[MemoryOptions, StrongerScope, ExactSuccessor, FramesOnTheSocket, SharedMemory, OwnListener, Repair],
    ),
];

/// The refusals of a carrier, which has its frames beside the signalling socket. A carrier of
/// another crate has no row.
const CARRIER: &[Refusal] =
    &[MemoryOptions, StrongerScope, ExactSuccessor, FramesOnTheSocket, Session, SharedMemory, OwnListener];

/// The refusals of a carrier that leaves packets in the sender's process for a while.
const UNREPAIRED: &[Refusal] = &[
    MemoryOptions,
    StrongerScope,
    ExactSuccessor,
    FramesOnTheSocket,
    Session,
    SharedMemory,
    OwnListener,
    Repair,
];

impl Refusal {
    /// Returns whether a transport has this refusal. The capabilities of a transport state
    /// whether it can be open to a group, unless it is bound to an address.
    pub fn is_of(self, transport: &str) -> bool {
        if self == Self::Group {
            let groups = stripline::transport::all().any(|found| found.name == transport && found.groups);
            return !groups || bind().is_some();
        }
        let row = TABLE.iter().find(|(name, _)| *name == transport);
        row.map_or(CARRIER, |(_, refusals)| refusals).contains(&self)
    }

    /// Prints a refusal that the caller has asserted. The transport must have this refusal.
    pub fn print(self, transport: &str, rule: &str, how: impl fmt::Display) {
        assert!(
            self.is_of(transport),
            "{transport} refuses {rule}, and {self:?} is not among its refusals: {how}"
        );
        println!("{transport}: {rule}: refused ({self:?}): {how}");
    }

    /// Prints that a rule does not apply to a transport, if so. Returns whether this is the case.
    pub fn excludes(self, transport: &str, rule: &str, how: impl fmt::Display) -> bool {
        let excludes = self.is_of(transport);
        if excludes {
            self.print(transport, rule, how);
        }
        excludes
    }
}
