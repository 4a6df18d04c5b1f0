//! What each transport refuses, in one table. The rules decide by it. With a row in the table, a
//! rule asserts the refusal; without one, it asserts that the transport keeps the rule. So a row
//! too many fails, and a row too few.

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
    /// A packet that waits for more than its connection.
    StrongerScope,
    /// A peer in another process.
    OtherProcesses,
    /// A successor's gap from the last packet that a dead receiver had taken.
    ExactSuccessor,
    /// Repair by another process than the sender's.
    Repair,
    /// Frames that a peer forges on the signalling socket. Elsewhere that is tested on `uds`, with
    /// the same code, or a ring's own tests cover what a peer can write.
    FramesOnTheSocket,
    /// Datagrams and records that a peer forges in a session. Elsewhere there is no session, or a
    /// session of a group, which has tests of its own.
    Session,
    /// Memory that another process shares.
    SharedMemory,
    /// Another accepting of strangers than that of `uds`, where a flood is tested.
    OwnListener,
}

/// The refusals of each transport.
const TABLE: [(&str, &[Refusal]); 16] = [
    ("inproc", &[OtherProcesses, FramesOnTheSocket, Session, SharedMemory, OwnListener]),
    ("shm", &[FramesOnTheSocket, Session]),
    ("uds", &[MemoryOptions, StrongerScope, ExactSuccessor, Session, SharedMemory]),
    ("tcp", &[MemoryOptions, Group, StrongerScope, ExactSuccessor, Session, SharedMemory, OwnListener]),
    ("mqueue", CARRIER),
    ("udp", &[MemoryOptions, StrongerScope, ExactSuccessor, FramesOnTheSocket, SharedMemory, OwnListener]),
    ("zeromq", UNREPAIRED),
    ("iceoryx2", OF_ONE_USER),
    ("zenoh", UNREPAIRED),
    ("dds", UNREPAIRED),
    ("corba", CARRIER),
    ("pipe", CARRIER),
    ("faulty", CARRIER),
    ("multicast", CARRIER),
    ("callback", CARRIER),
    (
        "lossy",
        &[MemoryOptions, StrongerScope, ExactSuccessor, FramesOnTheSocket, SharedMemory, OwnListener, Repair],
    ),
];

/// Those of a transport with frames beside the signalling socket.
const CARRIER: &[Refusal] =
    &[MemoryOptions, StrongerScope, ExactSuccessor, FramesOnTheSocket, Session, SharedMemory, OwnListener];

/// Those of one that cannot be opened to a group, either.
const OF_ONE_USER: &[Refusal] = &[
    MemoryOptions,
    Group,
    StrongerScope,
    ExactSuccessor,
    FramesOnTheSocket,
    Session,
    SharedMemory,
    OwnListener,
];

/// Those of one that also leaves packets in the sender's process for a while.
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
    /// Returns whether the table has it for a transport. None that is bound is open to a group.
    pub fn is_of(self, transport: &str) -> bool {
        if self == Self::Group && bind().is_some() {
            return true;
        }
        let row = TABLE.iter().find(|(name, _)| *name == transport);
        row.unwrap_or_else(|| panic!("add `{transport}` to the table of refusals")).1.contains(&self)
    }

    /// Prints a refusal, which the caller has asserted. It must be in the table.
    pub fn print(self, transport: &str, rule: &str, how: impl fmt::Display) {
        assert!(self.is_of(transport), "{transport} refuses {rule}, and the table has no {self:?}: {how}");
        println!("{transport}: {rule}: refused ({self:?}): {how}");
    }

    /// Prints a rule that does not apply to a transport, and returns whether that is so.
    pub fn excludes(self, transport: &str, rule: &str, how: impl fmt::Display) -> bool {
        let excludes = self.is_of(transport);
        if excludes {
            self.print(transport, rule, how);
        }
        excludes
    }
}
