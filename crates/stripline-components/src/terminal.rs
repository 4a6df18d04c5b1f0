//! The width of the terminal.

/// The narrowest width that output is fitted to, in columns.
const WIDTH_MIN: usize = 20;

/// Returns the width that output is fitted to, in columns: of COLUMNS, or of the terminal. `None`:
/// standard output is neither bounded by COLUMNS nor a terminal.
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
