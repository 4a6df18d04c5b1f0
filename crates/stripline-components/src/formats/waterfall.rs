//! A waterfall: spectra over time as a picture of bounded size.

use std::path::{Path, PathBuf};

use stripline::{Axis, StreamInfo};

use super::FormatError;
use super::canvas::{CHAR_HEIGHT, CHAR_WIDTH, Canvas};
use super::colour_map::colour;
use super::output::{Existing, write_whole};

/// The maximum number of columns, and of lines, of a waterfall.
pub const WATERFALL_SIZE_MAX: usize = 4096;

/// The smallest range of levels that is shown, in dB.
const RANGE_DB_MIN: f32 = 10.0;
/// The fraction of the levels that lies below the automatic range.
const FLOOR_PART: f64 = 0.05;

const TEXT: [u8; 3] = [220, 220, 220];
/// The margins of the picture for times and levels, in pixels.
const LEFT: usize = 12 * CHAR_WIDTH;
const RIGHT: usize = 16 + 10 * CHAR_WIDTH;
const TOP: usize = 8;
const BOTTOM: usize = 8 + 2 * CHAR_HEIGHT;

/// Rows of levels over time, reduced to the lines of a picture.
///
/// A row that is longer than the picture is wide is reduced to the highest level of each column.
/// When all lines are used, pairs of lines are merged into one, with the higher level of both; a
/// line then stands for twice as many rows. So the picture covers the whole time in bounded memory.
///
/// ```
/// use stripline_components::formats::Waterfall;
///
/// let mut waterfall = Waterfall::new(512, 4);
/// for row in 0..9 {
///     waterfall.add(row, &[-80.0, -20.0, -80.0]);
/// }
/// assert_eq!((waterfall.lines(), waterfall.rows_per_line()), (3, 4));
/// ```
#[derive(Debug, Clone)]
pub struct Waterfall {
    columns_max: usize,
    lines_max: usize,
    columns: usize,
    /// The levels of all lines; NaN: missing.
    cells: Vec<f32>,
    rows_per_line: u64,
    /// The number of the first row, and the number after the last row.
    first: u64,
    next: u64,
    /// The offset that is added to the numbers of rows after they have started again.
    offset: u64,
}

impl Waterfall {
    /// Creates a waterfall with these maximum numbers of columns and lines, which are clamped to 2
    /// to [`WATERFALL_SIZE_MAX`].
    pub fn new(columns_max: usize, lines_max: usize) -> Self {
        let [columns_max, lines_max] = [columns_max, lines_max].map(|size| size.clamp(2, WATERFALL_SIZE_MAX));
        let cells = Vec::new();
        Self { columns_max, lines_max, columns: 0, cells, rows_per_line: 1, first: 0, next: 0, offset: 0 }
    }

    /// Adds the row with this number. Missing rows before it stay dark.
    ///
    /// All rows are drawn with the columns of the first row. If a number is lower than the last
    /// one, the numbers have started again; the row then follows the last row.
    pub fn add(&mut self, number: u64, levels: &[f32]) {
        if levels.is_empty() {
            return;
        }
        if self.columns == 0 {
            self.columns = levels.len().min(self.columns_max);
            (self.first, self.next) = (number, number);
        }
        let mut row = number.wrapping_add(self.offset);
        if row < self.next {
            self.offset = self.next.wrapping_sub(number);
            row = self.next;
        }
        self.next = row.saturating_add(1);
        let line = loop {
            let line = (row - self.first) / self.rows_per_line;
            match usize::try_from(line) {
                Ok(line) if line < self.lines_max => break line,
                _ => self.merge_lines(),
            }
        };
        let end = (line + 1) * self.columns;
        self.cells.resize(self.cells.len().max(end), f32::NAN);
        let cells = &mut self.cells[end - self.columns..end];
        for (cell, level) in cells.iter_mut().zip(columns(levels, self.columns)) {
            *cell = cell.max(level);
        }
    }

    /// Returns the number of lines.
    pub fn lines(&self) -> usize {
        self.cells.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Returns the number of rows that a line stands for.
    pub fn rows_per_line(&self) -> u64 {
        self.rows_per_line
    }

    /// Writes the waterfall as a PNG file, the first row at the top, with the axes of the stream
    /// and a scale of the levels in dB. `range` has the darkest and the brightest level. `None`:
    /// the range is chosen so that noise is dark and the highest level is bright.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// ```
    /// use stripline::{Axis, StreamInfo};
    /// use stripline_components::formats::Waterfall;
    ///
    /// let mut waterfall = Waterfall::new(512, 512);
    /// (0..100).for_each(|row| waterfall.add(row, &[-80.0, -20.0, -80.0]));
    /// let axes = (Axis::new(-1e3, 1e3, "Hz"), Axis::new(0.0, 0.01, "s"));
    /// let path = std::env::temp_dir().join(format!("waterfall-{}.png", std::process::id()));
    /// waterfall.write_png(&path, &StreamInfo::new("spectra").rows(3, axes.0, axes.1), None)?;
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write_png(
        &self,
        path: &Path,
        stream: &StreamInfo,
        range: Option<(f32, f32)>,
    ) -> Result<(), FormatError> {
        self.write_png_as(path, Existing::Replace, stream, range).map(drop)
    }

    /// Writes the picture whole or not at all. Returns the path of the file.
    pub(crate) fn write_png_as(
        &self,
        path: &Path,
        existing: Existing,
        stream: &StreamInfo,
        range: Option<(f32, f32)>,
    ) -> Result<PathBuf, FormatError> {
        let range = range.unwrap_or_else(|| chosen_range(&self.cells));
        let mut picture = Vec::new();
        let drawn = self.drawn(stream, range).write_png(&mut picture);
        drawn.map_err(|source| FormatError::open(path, "write", source))?;
        write_whole(path, existing, &picture)
    }

    /// Returns whether the waterfall has no rows yet.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    fn merge_lines(&mut self) {
        self.rows_per_line = self.rows_per_line.saturating_mul(2);
        let merged: Vec<f32> = self
            .cells
            .chunks(2 * self.columns)
            .flat_map(|two| {
                let (upper, lower) = two.split_at(self.columns);
                upper
                    .iter()
                    .enumerate()
                    .map(|(n, level)| level.max(lower.get(n).copied().unwrap_or(f32::NAN)))
            })
            .collect();
        self.cells = merged;
    }

    fn drawn(&self, stream: &StreamInfo, range: (f32, f32)) -> Canvas {
        // Enlarge small pictures.
        let (wide, high) =
            ((640 / self.columns.max(1)).clamp(1, 64), (256 / self.lines().max(1)).clamp(1, 16));
        let (width, height) = (self.columns * wide, (self.lines() * high).max(64));
        let mut canvas = Canvas::new(LEFT + width + RIGHT, TOP + height + BOTTOM);
        for (line, cells) in self.cells.chunks(self.columns.max(1)).enumerate() {
            for (column, level) in cells.iter().enumerate().filter(|(_, level)| !level.is_nan()) {
                let place = (LEFT + column * wide, TOP + line * high);
                canvas.fill(place, (wide, high), colour(part(*level, range)));
            }
        }
        let centre = stream.center_frequency_hz.unwrap_or(0.0);
        if let Some(Axis { start, step, unit }) = stream.axes.first() {
            let start = if unit == "Hz" { start + centre } else { *start };
            let bins = f64::from(stream.row_length.unwrap_or(0));
            let ticks = Ticks::new(start, start + step * bins, unit, width / (16 * CHAR_WIDTH));
            for (place, label) in ticks.labels() {
                let x = LEFT + (place * width as f64) as usize;
                canvas.fill((x, TOP + height), (1, 4), TEXT);
                let left = (label.len() * CHAR_WIDTH / 2).min(x);
                canvas.text((x - left, TOP + height + 8), &label, TEXT);
            }
        }
        if let Some(Axis { start, step, unit }) = stream.axes.get(1) {
            let first = start + self.first as f64 * step;
            let shown = self.lines() as f64 * self.rows_per_line as f64 * step;
            let ticks = Ticks::new(first, first + shown, unit, self.lines() * high / (4 * CHAR_HEIGHT));
            for (place, label) in ticks.labels() {
                let y = TOP + (place * (self.lines() * high) as f64) as usize;
                canvas.fill((LEFT - 4, y), (4, 1), TEXT);
                let left = LEFT.saturating_sub(6 + label.len() * CHAR_WIDTH);
                canvas.text((left, y.saturating_sub(CHAR_HEIGHT / 2)), &label, TEXT);
            }
        }
        let scale = LEFT + width + 8;
        for y in 0..height {
            let level = 1.0 - y as f32 / height as f32;
            canvas.fill((scale, TOP + y), (8, 1), colour(level));
        }
        canvas.text((scale + 12, TOP), &format!("{:.0} dB", range.1), TEXT);
        canvas.text((scale + 12, TOP + height - CHAR_HEIGHT), &format!("{:.0} dB", range.0), TEXT);
        canvas
    }
}

/// Returns the highest level of each column. If there are fewer levels than columns, levels are
/// repeated.
pub(crate) fn columns(levels: &[f32], columns: usize) -> impl Iterator<Item = f32> {
    (0..columns).map(move |column| {
        let start = column * levels.len() / columns;
        let end = ((column + 1) * levels.len() / columns).max(start + 1);
        levels[start..end].iter().fold(f32::NAN, |highest, level| highest.max(*level))
    })
}

/// Returns the position of a level in the range. The position may lie outside of 0 to 1.
pub(crate) fn part(level: f32, (low, high): (f32, f32)) -> f32 {
    (level - low) / (high - low)
}

/// Returns a range for these levels, at least [`RANGE_DB_MIN`] wide. The lowest levels, which are
/// noise, are below the range.
pub(crate) fn chosen_range(levels: &[f32]) -> (f32, f32) {
    let mut finite: Vec<f32> = levels.iter().copied().filter(|level| level.is_finite()).collect();
    let highest = finite.iter().copied().fold(f32::MIN, f32::max);
    if finite.is_empty() {
        return (-RANGE_DB_MIN, 0.0);
    }
    let place = (finite.len() as f64 * FLOOR_PART) as usize;
    let (_, floor, _) = finite.select_nth_unstable_by(place, f32::total_cmp);
    (*floor, highest.max(*floor + RANGE_DB_MIN))
}

/// Returns a value with a decimal prefix before the unit, and as many digits as the step needs.
pub(crate) fn with_unit(value: f64, step: f64, largest: f64, unit: &str) -> String {
    // Fractions and counts have no prefix.
    let has_prefix = matches!(unit, "Hz" | "s" | "m");
    let prefixes =
        [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""), (1e-3, "m"), (1e-6, "u"), (1e-9, "n")];
    let fits = |(factor, prefix): &(f64, &str)| {
        largest >= *factor && !(unit == "s" && *factor > 1.0 && !prefix.is_empty())
    };
    let found = prefixes.iter().find(|prefix| fits(prefix)).filter(|_| has_prefix);
    let (factor, prefix) = found.copied().unwrap_or((1.0, ""));
    let digits = (-(step / factor).log10().floor()).clamp(0.0, 9.0) as usize;
    // Adding 0 turns -0 into 0.
    let value = value / factor + 0.0;
    let space = if unit.is_empty() { "" } else { " " };
    format!("{value:.digits$}{space}{prefix}{unit}")
}

/// Round values along an axis.
struct Ticks {
    from: f64,
    to: f64,
    step: f64,
    unit: String,
}

impl Ticks {
    /// Chooses a step that gives at most `count` ticks (at least 2).
    fn new(from: f64, to: f64, unit: &str, count: usize) -> Self {
        let least = (to - from).abs() / count.max(2) as f64;
        let power = 10f64.powf(least.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|step| *step >= least);
        Self { from, to, step: step.unwrap_or(power), unit: unit.into() }
    }

    /// Returns the positions of the ticks, from 0 to 1 along the axis, and their labels.
    fn labels(&self) -> Vec<(f64, String)> {
        let Self { from, to, step, unit } = self;
        if !(step.is_finite() && *step > 0.0) {
            return Vec::new();
        }
        let (low, high) = (from.min(*to), from.max(*to));
        let largest = low.abs().max(high.abs());
        let values = (0..100).map(|n| ((low / step).ceil() + f64::from(n)) * step);
        values
            .take_while(|value| *value <= high)
            .map(|value| ((value - from) / (to - from), with_unit(value, *step, largest, unit)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stream(bins: u32) -> StreamInfo {
        let axes = (Axis::new(-1e6, 2e6 / f64::from(bins), "Hz"), Axis::new(0.0, 0.01, "s"));
        StreamInfo::new("s").center_frequency_hz(100e6).rows(bins, axes.0, axes.1)
    }

    /// Returns the size and the pixels of a PNG file.
    fn decoded(path: &Path) -> ((usize, usize), Vec<[u8; 3]>) {
        let file = std::io::BufReader::new(std::fs::File::open(path).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        assert_eq!(info.color_type, png::ColorType::Rgb);
        ((info.width as usize, info.height as usize), pixels.as_chunks().0.to_vec())
    }

    #[test]
    fn rows_of_the_lowest_and_the_highest_number_are_drawn() {
        let folder = tempfile::tempdir().unwrap();
        let mut waterfall = Waterfall::new(2, 2);
        [0, u64::MAX - 1].iter().for_each(|row| waterfall.add(*row, &[0.0; 3]));
        waterfall.write_png(&folder.path().join("a.png"), &stream(3), None).unwrap();
    }

    #[test]
    fn a_tone_is_a_bright_line_in_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.png");
        let mut waterfall = Waterfall::new(1024, 1024);
        for row in 0..512 {
            let levels: Vec<f32> = (0..700).map(|bin| if bin == 300 { -10.0 } else { -90.0 }).collect();
            waterfall.add(row, &levels);
        }
        waterfall.write_png(&path, &stream(700), Some((-90.0, -10.0))).unwrap();
        let ((width, height), pixels) = decoded(&path);
        assert_eq!((width, height), (LEFT + 700 + RIGHT, TOP + 512 + BOTTOM));
        for y in TOP..TOP + 512 {
            let at = |column: usize| pixels[y * width + LEFT + column];
            assert_eq!((at(300), at(299), at(301)), (colour(1.0), colour(0.0), colour(0.0)), "{y}");
        }
        // Check that labels are drawn below and at the left.
        let is_text = |from: usize, to: usize| pixels[from..to].contains(&TEXT);
        assert!(is_text((TOP + 512 + 8) * width, pixels.len()), "frequencies");
        assert!((TOP..TOP + 512).any(|y| is_text(y * width, y * width + LEFT)), "times");
    }

    #[test]
    fn an_empty_waterfall_is_a_picture_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("w.png");
        Waterfall::new(64, 64).write_png(&path, &StreamInfo::default(), None).unwrap();
        assert!(decoded(&path).1.contains(&TEXT));
        let missing = Waterfall::new(64, 64).write_png(&dir.path().join("no/w.png"), &stream(4), None);
        assert!(missing.unwrap_err().to_string().contains("w.png: cannot create: No such file"));
    }

    #[test]
    fn missing_rows_stay_dark_and_numbers_may_start_anew() {
        let mut waterfall = Waterfall::new(4, 16);
        for number in [10, 11, 14, 0, 1] {
            waterfall.add(number, &[1.0, 2.0]);
        }
        assert_eq!((waterfall.lines(), waterfall.rows_per_line()), (7, 1));
        let is_dark: Vec<bool> = waterfall.cells.chunks(2).map(|line| line[0].is_nan()).collect();
        assert_eq!(is_dark, [false, false, true, true, false, false, false]);
        waterfall.add(u64::MAX / 2, &[3.0, 3.0]);
        assert!(waterfall.lines() <= 16);
    }

    #[test]
    fn labels_are_round_and_have_prefixes() {
        let labels = |from, to, unit, count| -> Vec<String> {
            Ticks::new(from, to, unit, count).labels().into_iter().map(|(_, label)| label).collect()
        };
        assert_eq!(
            labels(99e6, 101e6, "Hz", 4),
            ["99.0 MHz", "99.5 MHz", "100.0 MHz", "100.5 MHz", "101.0 MHz"]
        );
        assert_eq!(labels(0.0, 0.05, "s", 3), ["0 ms", "20 ms", "40 ms"]);
        assert_eq!(labels(0.0, 7200.0, "s", 2), ["0 s", "5000 s"]);
        assert_eq!(labels(-0.5, 0.5, "", 2), ["-0.5", "0.0", "0.5"]);
        assert!(labels(0.0, 0.0, "s", 3).is_empty() && labels(0.0, f64::NAN, "s", 3).is_empty());
    }

    #[test]
    fn the_range_leaves_out_the_lowest_levels() {
        let mut levels = vec![-60.0; 100];
        levels[3] = -150.0;
        levels[7] = -5.0;
        levels[9] = f32::NAN;
        assert_eq!(chosen_range(&levels), (-60.0, -5.0));
        assert_eq!(chosen_range(&[-3.0]), (-3.0, 7.0));
        assert_eq!(chosen_range(&[]), (-10.0, 0.0));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn the_highest_level_is_kept_wherever_it_is(
            bins in 1usize..300,
            rows in 1usize..300,
            (columns_max, lines_max) in (2usize..40, 2usize..40),
            place in any::<prop::sample::Index>(),
        ) {
            let mut waterfall = Waterfall::new(columns_max, lines_max);
            let at = place.index(bins * rows);
            for row in 0..rows {
                let level = |bin: usize| if row * bins + bin == at { 5.0 } else { -80.0 };
                waterfall.add(row as u64, &(0..bins).map(level).collect::<Vec<_>>());
            }
            let (columns, lines) = (waterfall.columns, waterfall.lines());
            prop_assert!(columns <= columns_max && lines <= lines_max);
            prop_assert_eq!(lines, rows.div_ceil(waterfall.rows_per_line() as usize));
            let bright: Vec<usize> =
                (0..waterfall.cells.len()).filter(|cell| waterfall.cells[*cell] == 5.0).collect();
            prop_assert_eq!(bright.len(), 1);
            let (line, column) = (bright[0] / columns, bright[0] % columns);
            prop_assert_eq!(line, at / bins / waterfall.rows_per_line() as usize);
            let from = column * bins / columns;
            prop_assert!((from..((column + 1) * bins / columns).max(from + 1)).contains(&(at % bins)));
        }
    }
}
