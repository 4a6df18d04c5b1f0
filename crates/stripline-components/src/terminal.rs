//! The width of the terminal.

/// The minimum width for which output is formatted, in columns.
const WIDTH_MIN: usize = 20;

/// Returns the width for which output is formatted, in columns, from COLUMNS or the terminal.
/// `None`: COLUMNS is not set, and standard output is not a terminal.
///
/// ```
/// assert!(stripline_components::internal::width().is_none_or(|columns| columns >= 20));
/// ```
pub fn width() -> Option<usize> {
    let set = std::env::var("COLUMNS").ok().and_then(|columns| columns.trim().parse().ok());
    let of_terminal = || {
        let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|width| *width > 0)
    };
    set.filter(|width| *width > 0).or_else(of_terminal).map(|width: usize| width.max(WIDTH_MIN))
}
