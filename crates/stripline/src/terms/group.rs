//! The group that a domain is open to.

use serde::{Deserialize, Serialize};

/// A group of this machine's users that may use a local link besides its own user.
///
/// The name is resolved once; its number is transmitted and compared.
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
    /// Creates the group of a number, which the machine may not have.
    pub(crate) const fn new(gid: u32) -> Self {
        Self(gid)
    }

    /// Returns its number.
    pub fn gid(self) -> u32 {
        self.0
    }
}
