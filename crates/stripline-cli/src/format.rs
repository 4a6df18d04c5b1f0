//! Numbers and texts for output.

use std::io::IsTerminal;

pub(crate) use stripline_components::internal::{counted, grouped, packets, printable};
pub(crate) use stripline_waveform::internal::{age, quantity, time};

/// Returns the most characters of a table cell on standard output. Only a terminal limits the
/// width.
pub(crate) fn cell_max() -> usize {
    if std::io::stdout().is_terminal() { 60 } else { usize::MAX }
}
