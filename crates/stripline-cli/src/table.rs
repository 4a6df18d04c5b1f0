//! Tables that fit into the terminal.
//!
//! A table that is too wide leaves out columns, and lists below what it left out. If it is still
//! too wide, each row becomes a block with a line for each cell. No word is broken.

use stripline_waveform::internal::wrapped;
use unicode_width::UnicodeWidthStr;

use crate::terminal;

/// The meaning of a cell's text, shown as its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Tone {
    /// The terminal's own colour.
    #[default]
    Plain,
    /// As it should be: green.
    Good,
    /// To be noted: yellow.
    Warning,
    /// A failure: red.
    Bad,
}

impl Tone {
    /// Returns `Warning` for a number of losses above zero.
    pub(crate) fn of_losses(number: u64) -> Self {
        if number > 0 { Self::Warning } else { Self::Plain }
    }

    fn paint(self, text: &str, is_coloured: bool) -> String {
        let code = match self {
            Self::Good if is_coloured => 32,
            Self::Warning if is_coloured => 33,
            Self::Bad if is_coloured => 31,
            _ => return text.into(),
        };
        format!("\x1b[{code}m{text}\x1b[0m")
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

    /// Sets the columns that a narrow terminal does without, in the order in which they are left
    /// out. Those with one value in all rows come before the others.
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

    /// Removes a column without a remark.
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
        let widths: Vec<usize> = (0..self.titles.len()).map(|column| self.column_width(column)).collect();
        let mut shown: Vec<usize> = (0..self.titles.len()).collect();
        let fits = |shown: &[usize]| {
            // Each column has a space on both sides, and the last one needs none behind it.
            let sum: usize = shown.iter().map(|column| widths[*column] + 2).sum();
            width.is_none_or(|width| sum.saturating_sub(1) <= width)
        };
        let mut left_out = Vec::new();
        for title in self.drop_order() {
            if fits(&shown) {
                break;
            }
            shown.retain(|column| self.titles[*column] != title);
            left_out.push(title);
        }
        if !fits(&shown) {
            return self.blocks(width.unwrap_or(usize::MAX), is_coloured);
        }
        let titles: Vec<Cell> = self.titles.iter().map(|title| Cell::from(*title)).collect();
        let mut text = String::new();
        for row in std::iter::once(&titles).chain(&self.rows) {
            let mut line = String::new();
            for column in &shown {
                let cell = &row[*column];
                let space = " ".repeat(widths[*column] - cell.width());
                let painted = cell.tone.paint(&cell.text, is_coloured);
                let is_number = self.numbers.contains(&self.titles[*column]);
                line +=
                    &if is_number { format!(" {space}{painted} ") } else { format!(" {painted}{space} ") };
            }
            text += line.trim_end();
            text.push('\n');
        }
        if !left_out.is_empty() {
            let remark = format!(" Not shown: {}.", self.remarks(&left_out).join(", "));
            text += &wrapped(&remark, width, 1);
            text.push('\n');
        }
        text
    }

    /// Returns the columns that may be left out: those with one value first.
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

    /// Formats each row as a block; cells without a value are left out.
    fn blocks(&self, width: usize, is_coloured: bool) -> String {
        let margin = self.titles.iter().map(|title| title.width()).max().unwrap_or(0);
        let mut blocks = Vec::new();
        for row in &self.rows {
            let mut block = String::new();
            for (title, cell) in self.titles.iter().zip(row).filter(|(_, cell)| cell.text != "-") {
                // The further lines stand below the first one.
                let text = wrapped(&cell.text, Some(width.saturating_sub(margin + 3)), 0);
                let text = text.replace('\n', &format!("\n{:1$}", "", margin + 3));
                block += &format!(" {title:<margin$}  {}\n", cell.tone.paint(&text, is_coloured));
            }
            blocks.push(block);
        }
        blocks.join("\n")
    }

    fn column_width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].width());
        cells.chain([self.titles[column].width()]).max().unwrap_or(0)
    }
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
}
