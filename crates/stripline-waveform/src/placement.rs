//! The placement of components: in processes, or in threads of one process.

use serde::{Deserialize, Serialize};

/// The placement of a component.
///
/// ```
/// let word = serde_json::to_string(&stripline_waveform::Placement::Thread).unwrap();
/// assert_eq!(word, r#""thread""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// A thread of the process that all components of the program share if they are placed in
    /// threads.
    Thread,
    /// A separate process.
    Process,
}

impl Placement {
    pub(crate) const ALL: [Self; 2] = [Self::Process, Self::Thread];

    /// Returns the word used in a waveform file.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Thread => "thread",
        }
    }
}
