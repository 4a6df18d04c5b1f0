//! The group that a domain is open to.

use serde::{Deserialize, Serialize};

/// A group of this machine's users that may use a local link in addition to the link's own user.
///
/// The name is resolved once. The number of the group is transmitted and compared.
///
/// ```
/// use stripline::terms::Group;
///
/// let error = Group::named("no such group").unwrap_err();
/// assert!(error.to_string().contains("no such group"));
/// # if let Ok(root) = Group::named("root") { assert_eq!(root.gid(), 0); }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Group(u32);

impl Group {
    /// Creates the group with a number. The group need not exist on this machine.
    pub(crate) const fn new(gid: u32) -> Self {
        Self(gid)
    }

    /// Returns the number of the group.
    pub fn gid(self) -> u32 {
        self.0
    }
}
