//! `waterfall-sink`: spectra over time, as a picture and on the terminal.

use std::io::{IsTerminal, Write};
use std::path::Path;

use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{
    Component, ComponentSpec, Direction, FileLog, FileReport, InvalidProperties, OrderRule, PortSpec,
    PortTypes, Ports, Properties, PropertyFacts, PropertySpec, StreamShape,
};
use stripline::{Axis, Error, Input, Result, StreamInfo};

use super::line_file::Screen;
use super::output_file::{self, Target};
use super::property_errors::can_be_made;
use crate::formats::{
    Existing, WATERFALL_SIZE_MAX, Waterfall, chosen_range, colour, columns, is_special, part, shown,
    with_unit,
};
use crate::terminal;

/// The number of columns of a line if neither COLUMNS nor a terminal gives a number.
const COLUMNS_DEFAULT: usize = 80;
/// The characters for levels without colours.
const SHADES: [char; 5] = [' ', '░', '▒', '▓', '█'];
/// The longest row, which is the longest row of `fft`.
const ROW_MAX: u32 = 1 << 20;

/// The component `waterfall-sink`.
pub struct WaterfallSink {
    target: Option<Target>,
    channel: String,
    is_drawn: bool,
    colours: Option<bool>,
    every: u64,
    range: Option<(f32, f32)>,
    lines: usize,
    columns: usize,
}

impl Component for WaterfallSink {
    fn describe() -> ComponentSpec {
        let size_max = WATERFALL_SIZE_MAX as i64;
        let limit = |name: &str, summary: &str| {
            PropertySpec::float(name, 0.0, summary).range(-1000.0, 1000.0).unit("dB")
        };
        let summary = "Draws spectra over time: to the terminal, and as a PNG file at the end.";
        ComponentSpec::new("waterfall-sink", summary)
            .port(
                PortSpec::new(
                    "in",
                    Direction::Input,
                    PortTypes::of::<f32>(),
                    "levels in dB, as `fft` sends them",
                )
                .shape(StreamShape::Rows),
            )
            .sample_order(OrderRule { channel: Some("channel".into()), ..OrderRule::default() })
            .property(PropertySpec::path("path", "PNG file to write; none: no file"))
            .property(PropertySpec::text(
                "channel",
                "",
                "name of the channel to draw; needed if the stream has several",
            ))
            .property(output_file::existing_property())
            .property(PropertySpec::boolean(
                "terminal",
                true,
                "whether to draw to standard output; not with --quiet, nor if the picture goes there",
            ))
            .property(PropertySpec::choice(
                "colour",
                &["auto", "always", "never"],
                "auto",
                "whether the terminal gets colours; auto: if it is one, and NO_COLOR is not set",
            ))
            .property(
                PropertySpec::integer(
                    "every",
                    1,
                    1,
                    i64::MAX,
                    "draws one row out of this number to the terminal; of a stream with frames, one frame",
                )
                .unit("rows"),
            )
            .property(limit("low", "level of the darkest colour; low = high = 0: chosen from the levels"))
            .property(limit("high", "level of the brightest colour"))
            .property(PropertySpec::integer(
                "lines",
                1024,
                2,
                size_max,
                "most lines of the picture; a line of a longer run stands for several rows",
            ))
            .property(PropertySpec::integer(
                "columns",
                1024,
                2,
                size_max,
                "most columns of the picture; a column of a longer row stands for several bins",
            ))
            .validated(|properties| {
                can_be_made::<Self>(properties)?;
                Target::optional(properties).map_or(Ok(()), |target| target.check(&target.path))
            })
            .facts(|properties| PropertyFacts {
                prints: properties.boolean("terminal") && !output_file::is_printed(properties),
                ..output_file::facts(properties)
            })
    }

    fn new(properties: &Properties) -> Result<Self> {
        let target = Target::optional(properties);
        if target.as_ref().is_some_and(|target| target.existing == Existing::Append) {
            let invalid = InvalidProperties::new("a picture cannot be continued").property("existing");
            return Err(invalid.remedy("set it to number or replace").into());
        }
        let (low, high) = (properties.float("low") as f32, properties.float("high") as f32);
        if low > high || low == high && low != 0.0 {
            let message = format!("`high` is {high} dB; it must be above `low`, {low} dB");
            let invalid = InvalidProperties::new(message).property("high");
            return Err(invalid.remedy("raise `high`, or leave both out").into());
        }
        let number = |name| usize::try_from(properties.count(name)).unwrap_or(usize::MAX);
        Ok(Self {
            target,
            channel: properties.text("channel").to_owned(),
            is_drawn: properties.boolean("terminal"),
            colours: match properties.text("colour") {
                "always" => Some(true),
                "never" => Some(false),
                _ => None,
            },
            every: properties.count("every"),
            range: (low < high).then_some((low, high)),
            lines: number("lines"),
            columns: number("columns"),
        })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let input = ports.input::<f32>("in")?;
        let target = self.target.take().map(|target| target.of_run(&ports));
        // If the picture goes to standard output, nothing else is printed there.
        let is_printed = target.as_ref().is_some_and(|target| target.path == Path::new("-"));
        let is_drawn = self.is_drawn && !ports.is_quiet() && !is_printed;
        let screen = Screen::new(is_drawn, target.is_none())?;
        let mut terminal = Terminal { screen, painter: Painter::new(self.colours, self.range) };
        let mut drawing = Drawing {
            waterfall: Waterfall::new(self.columns, self.lines),
            stream: StreamInfo::default(),
            frame: None,
            row: Vec::new(),
            skip: 0,
            missing: 0,
            places: 0,
        };
        let received = drawing.receive(input, &self, &mut terminal);
        drawing.drop_part(0);
        // Write the picture also after an error or a stop: the user wants the rows up to then.
        let finished = match &target {
            Some(Target { path, .. }) if drawing.waterfall.is_empty() => {
                output_file::report_nothing(&received, "row", path);
                Ok(())
            }
            Some(target) => self.write(target, &drawing, &ports.files()),
            None => Ok(()),
        };
        output_file::outcome(received, finished)
    }
}

impl WaterfallSink {
    /// Writes the picture, and reports the file.
    fn write(&self, target: &Target, drawing: &Drawing, files: &FileLog) -> Result<()> {
        let existing = match target.existing {
            // The file did not exist when the run began. Keep both files.
            Existing::Refuse if target.path.symlink_metadata().is_ok() => Existing::Number,
            existing => existing,
        };
        let report = |path: &Path| {
            let path = if path == Path::new("-") { Ok(path.into()) } else { std::path::absolute(path) };
            let report = FileReport::new(path.as_deref().unwrap_or(&target.path).to_string_lossy());
            FileReport { missing: drawing.missing, places: drawing.places, ..report }
        };
        if is_special(&target.path) {
            // A pipe may never get a reader.
            files.report(report(&target.path));
        }
        let written = drawing.waterfall.write_png_as(&target.path, existing, &drawing.stream, self.range);
        let mut problem = None;
        match written {
            Ok(path) => {
                let found = (path != target.path).then(|| {
                    let (taken, written) = (report(&target.path), report(&path));
                    format!("{}, which stays as it is, and wrote {}", taken.name(), written.name())
                });
                let report = FileReport { finished: true, found, ..report(&path) };
                // The message is only for the user. If printing fails, the file still exists.
                let _ =
                    writeln!(std::io::stderr(), "wrote the waterfall to {}", shown(report.name().as_ref()));
                files.report(report);
                Ok(())
            }
            Err(error) => {
                let error = target.failed(error, &mut problem);
                files.report(FileReport { problem, ..report(&target.path) });
                Err(error)
            }
        }
    }

    /// Returns the position of the channel to draw, and the number of channels.
    fn turn(&self, stream: &StreamInfo) -> Result<(u64, u64)> {
        let (names, channel) = (&stream.channels, &self.channel);
        let turns = names.len().max(1) as u64;
        if let Some(turn) = names.iter().position(|name| name == channel) {
            return Ok((turn as u64, turns));
        }
        if channel.is_empty() && turns == 1 {
            return Ok((0, 1));
        }
        let problem = match (names.is_empty(), channel.is_empty()) {
            (true, _) => format!("has no `channels`, and `channel` is {channel}: leave `channel` out"),
            (_, true) => format!("has the channels {}: name one by `channel`", names.join(", ")),
            (_, false) => {
                format!("has the channels {}, and no {channel}: name one by `channel`", names.join(", "))
            }
        };
        Err(Error::failed(format!("the stream `{}` {problem}", stream.id)))
    }
}

/// The rows received so far.
struct Drawing {
    waterfall: Waterfall,
    /// The stream of the first row.
    stream: StreamInfo,
    /// The rows of the frame that is being received, and their number, if the stream has frames.
    /// The waterfall is then the newest whole frame.
    frame: Option<(Waterfall, u64)>,
    /// The samples of the next row that have arrived.
    row: Vec<f32>,
    /// The number of samples to skip before the next row begins.
    skip: usize,
    /// The number of samples in incomplete rows, and of places with such rows.
    missing: u64,
    places: u64,
}

impl Drawing {
    /// Drops an incomplete row, and the next `skip` samples.
    fn drop_part(&mut self, skip: usize) {
        let of_frame = self.frame.take().map_or(0, |(_, rows)| rows * u64::from(self.row_length()));
        let dropped = self.row.len() as u64 + of_frame;
        self.missing += dropped;
        self.places += u64::from(dropped > 0 || skip > 0);
        self.row.clear();
        self.skip = skip;
    }

    fn row_length(&self) -> u32 {
        self.stream.row_length.unwrap_or(1)
    }

    /// Adds a row to the frame, at this place within the frame. Returns whether the row was used.
    fn add_to_frame(&mut self, sink: &WaterfallSink, place: u64) -> bool {
        if place == 0 {
            self.frame = Some((Waterfall::new(sink.columns, sink.lines), 0));
        }
        let Some((frame, rows)) = self.frame.as_mut().filter(|(_, rows)| *rows == place) else {
            // The beginning of the frame is missing.
            self.missing += self.row.len() as u64;
            return false;
        };
        frame.add(place, &self.row);
        *rows += 1;
        if *rows == self.stream.frame_rows.map_or(1, u64::from)
            && let Some((whole, _)) = self.frame.take()
        {
            self.waterfall = whole;
        }
        true
    }

    fn receive(
        &mut self,
        mut input: Input<f32>,
        sink: &WaterfallSink,
        terminal: &mut Terminal,
    ) -> Result<()> {
        let mut tracker = StreamTracker::default();
        let mut length = 0;
        // Turn `turn` of every `turns` turns is drawn: a row, or the rows of a frame.
        let (mut turn, mut turns, mut turn_rows) = (0, 1, 1);
        // The number of rows or frames so far.
        let (mut rows, mut drawn) = (0u64, 0u64);
        while let Some(packet) = input.receive()? {
            let arrival = tracker.packet(&packet);
            if arrival == Continuity::NewStream {
                length = self.length(packet.stream())?;
                (turn, turns) = sink.turn(packet.stream())?;
                let frame_rows = packet.stream().frame_rows;
                if rows == 0 {
                    self.stream = StreamInfo::clone(packet.stream());
                    if let Some(across) = self.stream.axes.get_mut(1).filter(|_| frame_rows.is_none()) {
                        across.step *= turns as f64;
                    }
                }
                turn_rows = frame_rows.map_or(1, u64::from);
                if frame_rows.is_none() {
                    terminal.header(packet.stream())?;
                }
            }
            if arrival != Continuity::Next {
                let into = usize::try_from(packet.sample_index() % length as u64).unwrap_or(0);
                self.drop_part((length - into) % length);
            }
            let skipped = self.skip.min(packet.len());
            self.skip -= skipped;
            self.missing += skipped as u64;
            let mut index = packet.sample_index().saturating_add(skipped as u64);
            let mut samples = &packet[skipped..];
            while !samples.is_empty() {
                let count = samples.len().min(length - self.row.len());
                self.row.extend_from_slice(&samples[..count]);
                (samples, index) = (&samples[count..], index.saturating_add(count as u64));
                if self.row.len() == length {
                    let number = (index / length as u64).saturating_sub(1);
                    if number / turn_rows % turns == turn {
                        let place = number % turn_rows;
                        let has_frames = self.stream.frame_rows.is_some();
                        let is_used = if has_frames {
                            self.add_to_frame(sink, place)
                        } else {
                            self.waterfall.add(number / turns, &self.row);
                            true
                        };
                        if is_used && drawn.is_multiple_of(sink.every) {
                            if has_frames && place == 0 {
                                terminal.header(&self.stream)?;
                            }
                            terminal.row(&self.row)?;
                        }
                        rows += 1;
                        drawn += u64::from(place + 1 == turn_rows);
                    }
                    self.row.clear();
                }
            }
        }
        Ok(())
    }

    /// Returns the row length of the stream.
    fn length(&self, stream: &StreamInfo) -> Result<usize> {
        let id = &stream.id;
        // If there is no sample rate, the unit of `fft` is samples.
        let is_time = |axis: &&Axis| matches!(&*axis.unit, "s" | "samples" | "");
        let across = stream.axes.get(1).filter(|_| stream.frame_rows.is_none());
        if let Some(axis) = across.filter(|axis| !is_time(axis)) {
            return Err(Error::failed(format!(
                "the rows of the stream `{id}` are over an axis in `{}` (`axes`), and a waterfall has rows over time: \
                 describe the rows of a map as frames (`frame_rows`) where they are sent",
                axis.unit
            )));
        }
        if self.stream.row_length.is_some() && stream.frame_rows != self.stream.frame_rows {
            return Err(Error::failed(format!(
                "the frames of the stream `{id}` have changed (`frame_rows`): draw one stream"
            )));
        }
        // The input takes only streams with rows.
        let length = stream.row_length.unwrap_or(1);
        match self.stream.row_length {
            _ if length > ROW_MAX => Err(Error::failed(format!(
                "the rows of the stream `{id}` have {length} samples, and may have {ROW_MAX}: use shorter ones"
            ))),
            Some(before) if length != before => Err(Error::failed(format!(
                "the rows of the stream `{id}` have {length} samples now, and had {before}: draw one stream"
            ))),
            _ => Ok(length as usize),
        }
    }
}

/// The drawing on standard output.
struct Terminal {
    screen: Screen,
    painter: Painter,
}

impl Terminal {
    fn header(&mut self, stream: &StreamInfo) -> Result<()> {
        self.screen.print(header(stream, width()))
    }

    fn row(&mut self, levels: &[f32]) -> Result<()> {
        if !self.screen.is_open() {
            return Ok(());
        }
        self.screen.print(self.painter.line(levels, width()))
    }
}

fn width() -> usize {
    terminal::width().unwrap_or(COLUMNS_DEFAULT).min(WATERFALL_SIZE_MAX)
}

/// Returns the line above a waterfall, with the values at both ends.
fn header(stream: &StreamInfo, width: usize) -> String {
    let Some(axis) = stream.axes.first() else { return String::new() };
    let centre = stream.center_frequency_hz.filter(|_| axis.unit == "Hz").unwrap_or(0.0);
    let (from, to) = (axis.start + centre, axis.at(stream.row_length.unwrap_or(1).into()) + centre);
    let largest = from.abs().max(to.abs());
    let [left, right] =
        [from, to].map(|value| with_unit(value, (to - from).abs() / 100.0, largest, &axis.unit));
    let space = width.saturating_sub(left.chars().count() + right.chars().count()).max(1);
    format!("{left}{}{right}\n", " ".repeat(space))
}

/// A painter of rows of levels as characters.
struct Painter {
    colours: Colours,
    range: Option<(f32, f32)>,
    /// The range of the rows so far.
    seen: Option<(f32, f32)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Colours {
    None,
    /// The 256 colours of most terminals.
    Palette,
    /// Red, green and blue.
    All,
}

impl Painter {
    fn new(colours: Option<bool>, range: Option<(f32, f32)>) -> Self {
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_coloured = colours.unwrap_or_else(|| !is_set("NO_COLOR") && std::io::stdout().is_terminal());
        let is_full = std::env::var("COLORTERM").is_ok_and(|value| value == "truecolor" || value == "24bit");
        let colours = match (is_coloured, is_full) {
            (false, _) => Colours::None,
            (true, false) => Colours::Palette,
            (true, true) => Colours::All,
        };
        Self { colours, range, seen: None }
    }

    /// Returns a row as a line with `width` columns.
    fn line(&mut self, levels: &[f32], width: usize) -> String {
        let cells: Vec<f32> = columns(levels, width).collect();
        let range = self.range.unwrap_or_else(|| {
            let (low, high) = chosen_range(&cells);
            let seen =
                self.seen.map_or((low, high), |(lowest, highest)| (low.min(lowest), high.max(highest)));
            self.seen = Some(seen);
            seen
        });
        let mut line = String::new();
        let mut last = None;
        for level in cells.iter().map(|level| part(*level, range)) {
            let [r, g, b] = colour(level);
            match self.colours {
                Colours::None => {
                    let shade = (level.clamp(0.0, 1.0) * SHADES.len() as f32) as usize;
                    line.push(SHADES[shade.min(SHADES.len() - 1)]);
                    continue;
                }
                _ if last == Some([r, g, b]) => {}
                Colours::All => line += &format!("\x1b[48;2;{r};{g};{b}m"),
                Colours::Palette => {
                    let cube = |value: u8| u16::from(value) * 5 / 255;
                    let number = 16 + 36 * cube(r) + 6 * cube(g) + cube(b);
                    line += &format!("\x1b[48;5;{number}m");
                }
            }
            last = Some([r, g, b]);
            line.push(' ');
        }
        if self.colours != Colours::None {
            line += "\x1b[0m";
        }
        line + "\n"
    }
}

#[cfg(test)]
mod tests {
    use stripline::component::Value;

    use super::*;

    #[test]
    fn a_line_is_as_wide_as_the_terminal() {
        let mut painter = Painter::new(Some(false), Some((-80.0, 0.0)));
        let levels: Vec<f32> = (0..40).map(|bin| if bin == 20 { 0.0 } else { -80.0 }).collect();
        for width in [20, 40, 100] {
            let line = painter.line(&levels, width);
            assert_eq!(line.trim_end_matches('\n').chars().count(), width);
            assert_eq!(line.chars().position(|c| c == '█'), Some(width / 2));
            assert!(!line.contains('\x1b'));
        }
        assert_eq!(painter.line(&[f32::NAN, -80.0, -40.0, 0.0], 4), "  ▒█\n");
    }

    #[test]
    fn colours_are_set_where_they_change() {
        for (colours, code) in [(Colours::All, "\x1b[48;2;253;231;37m"), (Colours::Palette, "\x1b[48;5;")] {
            let mut painter = Painter { colours, range: Some((-80.0, 0.0)), seen: None };
            let line = painter.line(&[-80.0, -80.0, 0.0, 0.0], 4);
            assert_eq!(line.matches("\x1b[48").count(), 2, "{line:?}");
            assert!(line.contains(code) && line.ends_with("\x1b[0m\n"), "{line:?}");
        }
    }

    #[test]
    fn the_range_grows_with_the_rows() {
        let mut painter = Painter::new(Some(false), None);
        painter.line(&[-50.0, -20.0], 2);
        painter.line(&[-70.0, -30.0], 2);
        assert_eq!(painter.seen, Some((-70.0, -20.0)));
    }

    #[test]
    fn the_header_has_the_frequencies_at_the_ends() {
        let axes = (Axis::new(-1e6, 1e3, "Hz"), Axis::new(0.0, 0.1, "s"));
        let stream = StreamInfo::new("x").center_frequency_hz(100e6).rows(2000, axes.0, axes.1);
        assert_eq!(header(&stream, 30), format!("99.00 MHz{}101.00 MHz\n", " ".repeat(11)));
        assert_eq!(header(&StreamInfo::new("x"), 30), "");
    }

    #[test]
    fn a_range_has_a_low_and_a_high_end() {
        let made = |low: f64, high: f64| {
            let values = [("low", low), ("high", high)].map(|(name, x)| (name.to_owned(), Value::Float(x)));
            WaterfallSink::new(&Properties::new(&WaterfallSink::describe(), values.into()).unwrap())
        };
        assert!(made(-5.0, -5.0).is_err_and(|error| error.to_string().contains("above `low`")));
        assert_eq!(made(-90.0, 0.0).unwrap().range, Some((-90.0, 0.0)));
        assert_eq!(made(0.0, 0.0).unwrap().range, None);
    }
}
