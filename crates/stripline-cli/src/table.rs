//! Tables that fit into the terminal.
//!
//! A table that is too wide leaves out columns, and lists them below. If it is still too wide, each
//! row becomes a block with a line for each cell. No word is broken.

use stripline_waveform::internal::wrapped;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::terminal;

/// The meaning of a cell's text, shown as its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// The terminal's own colour.
    #[default]
    Plain,
    /// A normal state: green.
    Good,
    /// A state that needs attention: yellow.
    Warning,
    /// A failure: red.
    Bad,
}

impl Tone {
    /// Returns `Warning` if losses have occurred.
    pub(crate) fn of_losses(number: u64) -> Self {
        if number > 0 { Self::Warning } else { Self::Plain }
    }

    pub(crate) fn paint(self, text: &str, is_coloured: bool) -> String {
        let code = match self {
            Self::Good if is_coloured => 32,
            Self::Warning if is_coloured => 33,
            Self::Bad if is_coloured => 31,
            _ => return text.into(),
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// Colours the text without the spaces around it.
    fn paint_word(self, text: &str, is_coloured: bool) -> String {
        let word = text.trim_matches(' ');
        match text.split_once(word).filter(|_| !word.is_empty()) {
            Some((before, after)) => format!("{before}{}{after}", self.paint(word, is_coloured)),
            None => text.into(),
        }
    }
}

/// One cell.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub(crate) fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { text: text.into(), tone }
    }

    /// Returns the cell with another tone.
    pub(crate) fn with(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    fn width(&self) -> usize {
        self.text.width()
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::toned(text, Tone::Plain)
    }
}

/// A table with a header. Columns are named by their titles.
#[derive(Debug)]
pub(crate) struct Table {
    titles: Vec<&'static str>,
    numbers: Vec<&'static str>,
    droppable: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

impl Table {
    pub(crate) fn new(titles: &[&'static str]) -> Self {
        Self { titles: titles.to_vec(), numbers: Vec::new(), droppable: Vec::new(), rows: Vec::new() }
    }

    /// Sets the columns that are aligned to the right.
    pub(crate) fn numbers(mut self, titles: &[&'static str]) -> Self {
        self.numbers = titles.to_vec();
        self
    }

    /// Sets the columns that may be left out on a narrow terminal, in that order. Columns with the
    /// same value in all rows are left out before the others.
    pub(crate) fn droppable(mut self, titles: &[&'static str]) -> Self {
        self.droppable = titles.to_vec();
        self
    }

    /// Adds a row. An empty cell becomes a dash.
    pub(crate) fn add<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        let mut row: Vec<Cell> = cells.into_iter().map(Into::into).collect();
        row.resize(self.titles.len(), Cell::default());
        row.iter_mut().filter(|cell| cell.is_empty()).for_each(|cell| cell.text = "-".into());
        self.rows.push(row);
    }

    /// Removes a column without a remark below the table.
    pub(crate) fn remove(&mut self, title: &str) {
        if let Some(index) = self.titles.iter().position(|known| *known == title) {
            self.titles.remove(index);
            self.rows.iter_mut().for_each(|row| drop(row.remove(index)));
        }
    }

    /// Formats the table for standard output.
    pub(crate) fn render(&self) -> String {
        self.render_within(terminal::width(), terminal::is_stdout_coloured())
    }

    fn render_within(&self, width: Option<usize>, is_coloured: bool) -> String {
        let widths = self.column_widths();
        let (shown, left_out) = self.selection(&widths, width, &self.drop_order());
        if !fits(&widths, &shown, width) {
            return self.blocks(width.unwrap_or(usize::MAX), is_coloured);
        }
        let mut text = String::new();
        for row in std::iter::once(&self.header()).chain(&self.rows) {
            text += self.line(row, &shown, &widths, usize::MAX, is_coloured).0.trim_end();
            text.push('\n');
        }
        if !left_out.is_empty() {
            let remark = format!(" Not shown: {}.", self.remarks(&left_out).join(", "));
            text += &wrapped(&remark, width, 1);
            text.push('\n');
        }
        text
    }

    /// Returns the header and the rows as lines of exactly that width, without remarks. Columns
    /// that may be left out are dropped as needed, and the rest is cut off at the width. The choice
    /// of columns does not depend on their common values: the lines are drawn repeatedly, and
    /// columns should not come and go.
    pub(crate) fn lines(&self, width: usize, is_coloured: bool) -> Vec<String> {
        let widths = self.column_widths();
        let (shown, _) = self.selection(&widths, Some(width), &self.droppable);
        let line = |row: &Vec<Cell>| {
            let (line, rest) = self.line(row, &shown, &widths, width, is_coloured);
            line + &" ".repeat(rest)
        };
        std::iter::once(&self.header()).chain(&self.rows).map(line).collect()
    }

    /// Formats a row of at most that width. Returns the line, and the width that is left.
    fn line(
        &self,
        row: &[Cell],
        shown: &[usize],
        widths: &[usize],
        mut width: usize,
        is_coloured: bool,
    ) -> (String, usize) {
        let mut line = String::new();
        for column in shown {
            let (cell, is_number) = (&row[*column], self.numbers.contains(&self.titles[*column]));
            let space = " ".repeat(widths[*column] - cell.width());
            let (left, right) = if is_number { (&*space, "") } else { ("", &*space) };
            let text = cut(&format!(" {left}{}{right} ", cell.text), width);
            width = width.saturating_sub(text.width());
            line += &cell.tone.paint_word(&text, is_coloured);
        }
        (line, width)
    }

    fn header(&self) -> Vec<Cell> {
        self.titles.iter().map(|title| Cell::from(*title)).collect()
    }

    /// Returns the columns to show, and the titles of the others.
    fn selection(
        &self,
        widths: &[usize],
        width: Option<usize>,
        order: &[&'static str],
    ) -> (Vec<usize>, Vec<&'static str>) {
        let mut shown: Vec<usize> = (0..self.titles.len()).collect();
        let mut left_out = Vec::new();
        for title in order {
            if fits(widths, &shown, width) {
                break;
            }
            shown.retain(|column| self.titles[*column] != *title);
            left_out.push(*title);
        }
        (shown, left_out)
    }

    /// Returns the columns that may be left out. Columns with the same value in all rows come
    /// first.
    fn drop_order(&self) -> Vec<&'static str> {
        let (same, other): (Vec<_>, Vec<_>) =
            self.droppable.iter().copied().partition(|title| self.common_value(title).is_some());
        same.into_iter().chain(other).collect()
    }

    /// Returns the value that all rows have in the column, if there are several rows.
    fn common_value(&self, title: &str) -> Option<&str> {
        let mut columns = (0..self.titles.len()).filter(|column| self.titles[*column] == title);
        let (column, None) = (columns.next()?, columns.next()) else { return None };
        let first = &self.rows.first()?[column].text;
        let is_same = self.rows.len() > 1 && self.rows.iter().all(|row| row[column].text == *first);
        is_same.then_some(first)
    }

    fn remarks(&self, left_out: &[&str]) -> Vec<String> {
        let remark = |title: &&str| match self.common_value(title) {
            Some(value) => format!("{title} ({value} in all rows)"),
            None => (*title).to_string(),
        };
        left_out.iter().map(remark).collect()
    }

    /// Formats each row as a block. Cells without a value are left out.
    fn blocks(&self, width: usize, is_coloured: bool) -> String {
        let margin = self.titles.iter().map(|title| title.width()).max().unwrap_or(0);
        let mut blocks = Vec::new();
        for row in &self.rows {
            let mut block = String::new();
            for (title, cell) in self.titles.iter().zip(row).filter(|(_, cell)| cell.text != "-") {
                // Continuation lines are aligned with the first line.
                let text = wrapped(&cell.text, Some(width.saturating_sub(margin + 3)), 0);
                let text = text.replace('\n', &format!("\n{:1$}", "", margin + 3));
                block += &format!(" {title:<margin$}  {}\n", cell.tone.paint(&text, is_coloured));
            }
            blocks.push(block);
        }
        blocks.join("\n")
    }

    fn column_widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| row[column].width());
            cells.chain([self.titles[column].width()]).max().unwrap_or(0)
        };
        (0..self.titles.len()).map(width).collect()
    }
}

/// Returns whether these columns fit into the width.
fn fits(widths: &[usize], shown: &[usize], width: Option<usize>) -> bool {
    // Each column has a space on both sides, except after the last one.
    let sum: usize = shown.iter().map(|column| widths[*column] + 2).sum();
    width.is_none_or(|width| sum.saturating_sub(1) <= width)
}

/// Returns the longest beginning of a text that fits into the width.
pub(crate) fn cut(text: &str, width: usize) -> String {
    let mut used = 0;
    let fits = |c: &char| {
        used += c.width().unwrap_or(0);
        used <= width
    };
    text.chars().take_while(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(&["NAME", "KIND", "SIZE", "LOST", "TEXT"])
            .numbers(&["SIZE", "LOST"])
            .droppable(&["SIZE", "KIND", "LOST"]);
        table.add(["first", "shm", "1,000", "0", "some words of text"]);
        table.add(["second", "shm", "20", "3", ""]);
        table
    }

    #[test]
    fn everything_is_shown_where_the_width_is_unknown() {
        let expected = " NAME    KIND   SIZE  LOST  TEXT\n first   shm   1,000     0  some words of text\n second  shm \
                        \u{20}    20     3  -\n";
        assert_eq!(table().render_within(None, false), expected);
        assert_eq!(table().render_within(Some(50), false), expected);
    }

    #[test]
    fn what_is_the_same_in_all_rows_goes_first() {
        let text = table().render_within(Some(44), false);
        assert_eq!(text.lines().next(), Some(" NAME     SIZE  LOST  TEXT"));
        assert!(text.ends_with("\n Not shown: KIND (shm in all rows).\n"), "{text}");
        let text = table().render_within(Some(36), false);
        assert_eq!(text.lines().next(), Some(" NAME    LOST  TEXT"));
        assert!(text.contains(" Not shown: KIND (shm in all rows),\n SIZE."), "{text}");
    }

    #[test]
    fn a_row_that_fits_nowhere_is_a_block() {
        let text = table().render_within(Some(20), false);
        let first = " NAME  first\n KIND  shm\n SIZE  1,000\n LOST  0\n TEXT  some words of\n       text\n";
        assert_eq!(text, format!("{first}\n NAME  second\n KIND  shm\n SIZE  20\n LOST  3\n"));
    }

    #[test]
    fn colours_take_no_width() {
        let mut table = Table::new(&["A", "B"]);
        table.add([Cell::toned("bad", Tone::Bad), "x".into()]);
        assert_eq!(table.render_within(None, true), " A    B\n \x1b[31mbad\x1b[0m  x\n");
        assert_eq!(table.render_within(Some(3), true), " A  \x1b[31mbad\x1b[0m\n B  x\n");
    }

    #[test]
    fn lines_have_exactly_the_width() {
        for width in [0, 1, 5, 20, 36, 44, 50, 200] {
            let lines = table().lines(width, false);
            assert!(lines.len() == 3 && lines.iter().all(|line| line.width() == width), "{width}: {lines:?}");
        }
        assert_eq!(table().lines(36, false)[1], " first      0  some words of text   ");
        assert_eq!(table().lines(8, false), [" NAME   ", " first  ", " second "]);
        let mut table = Table::new(&["A", "B"]);
        table.add([Cell::toned("bad", Tone::Bad), "x".into()]);
        assert_eq!(table.lines(9, true)[1], " \x1b[31mbad\x1b[0m  x  ");
        assert_eq!(table.lines(3, true)[1], " \x1b[31mba\x1b[0m");
        // A character with a width of two does not fit into one column.
        assert_eq!((cut("漢字", 3), cut("漢字", 4)), ("漢".into(), "漢字".into()));
    }
}
