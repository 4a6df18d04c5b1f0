//! A small picture: rectangles, and text in a font of 5 by 7 pixels.

use std::io::{self, BufWriter, Write};

/// The distance from one character to the next, in pixels.
pub(super) const CHAR_WIDTH: usize = 6;
/// The height of a character, in pixels.
pub(super) const CHAR_HEIGHT: usize = 7;

/// The characters of labels, which have any unit of an axis: seven rows each, of five pixels.
const FONT: &[(char, [u8; CHAR_HEIGHT])] = &[
    (' ', [0; CHAR_HEIGHT]),
    ('%', [0b11000, 0b11001, 0b00010, 0b00100, 0b01000, 0b10011, 0b00011]),
    ('(', [0b00010, 0b00100, 0b01000, 0b01000, 0b01000, 0b00100, 0b00010]),
    (')', [0b01000, 0b00100, 0b00010, 0b00010, 0b00010, 0b00100, 0b01000]),
    ('-', [0, 0, 0, 0b11111, 0, 0, 0]),
    ('.', [0, 0, 0, 0, 0, 0b01100, 0b01100]),
    ('/', [0b00001, 0b00001, 0b00010, 0b00100, 0b01000, 0b10000, 0b10000]),
    ('0', [0b01110, 0b10001, 0b10011, 0b10101, 0b11001, 0b10001, 0b01110]),
    ('1', [0b00100, 0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110]),
    ('2', [0b01110, 0b10001, 0b00001, 0b00010, 0b00100, 0b01000, 0b11111]),
    ('3', [0b11111, 0b00010, 0b00100, 0b00010, 0b00001, 0b10001, 0b01110]),
    ('4', [0b00010, 0b00110, 0b01010, 0b10010, 0b11111, 0b00010, 0b00010]),
    ('5', [0b11111, 0b10000, 0b11110, 0b00001, 0b00001, 0b10001, 0b01110]),
    ('6', [0b00110, 0b01000, 0b10000, 0b11110, 0b10001, 0b10001, 0b01110]),
    ('7', [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b01000, 0b01000]),
    ('8', [0b01110, 0b10001, 0b10001, 0b01110, 0b10001, 0b10001, 0b01110]),
    ('9', [0b01110, 0b10001, 0b10001, 0b01111, 0b00001, 0b00010, 0b01100]),
    ('A', [0b01110, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b10001]),
    ('B', [0b11110, 0b10001, 0b10001, 0b11110, 0b10001, 0b10001, 0b11110]),
    ('C', [0b01110, 0b10001, 0b10000, 0b10000, 0b10000, 0b10001, 0b01110]),
    ('D', [0b11110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b11110]),
    ('E', [0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b11111]),
    ('F', [0b11111, 0b10000, 0b10000, 0b11110, 0b10000, 0b10000, 0b10000]),
    ('G', [0b01110, 0b10001, 0b10000, 0b10111, 0b10001, 0b10001, 0b01111]),
    ('H', [0b10001, 0b10001, 0b10001, 0b11111, 0b10001, 0b10001, 0b10001]),
    ('I', [0b01110, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110]),
    ('J', [0b00111, 0b00010, 0b00010, 0b00010, 0b00010, 0b10010, 0b01100]),
    ('K', [0b10001, 0b10010, 0b10100, 0b11000, 0b10100, 0b10010, 0b10001]),
    ('L', [0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b10000, 0b11111]),
    ('M', [0b10001, 0b11011, 0b10101, 0b10101, 0b10001, 0b10001, 0b10001]),
    ('N', [0b10001, 0b11001, 0b10101, 0b10011, 0b10001, 0b10001, 0b10001]),
    ('O', [0b01110, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01110]),
    ('P', [0b11110, 0b10001, 0b10001, 0b11110, 0b10000, 0b10000, 0b10000]),
    ('Q', [0b01110, 0b10001, 0b10001, 0b10001, 0b10101, 0b10010, 0b01101]),
    ('R', [0b11110, 0b10001, 0b10001, 0b11110, 0b10100, 0b10010, 0b10001]),
    ('S', [0b01111, 0b10000, 0b10000, 0b01110, 0b00001, 0b00001, 0b11110]),
    ('T', [0b11111, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100]),
    ('U', [0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01110]),
    ('V', [0b10001, 0b10001, 0b10001, 0b10001, 0b10001, 0b01010, 0b00100]),
    ('W', [0b10001, 0b10001, 0b10001, 0b10101, 0b10101, 0b11011, 0b10001]),
    ('X', [0b10001, 0b10001, 0b01010, 0b00100, 0b01010, 0b10001, 0b10001]),
    ('Y', [0b10001, 0b10001, 0b01010, 0b00100, 0b00100, 0b00100, 0b00100]),
    ('Z', [0b11111, 0b00001, 0b00010, 0b00100, 0b01000, 0b10000, 0b11111]),
    ('^', [0b00100, 0b01010, 0b10001, 0, 0, 0, 0]),
    ('_', [0, 0, 0, 0, 0, 0, 0b11111]),
    ('a', [0, 0, 0b01110, 0b00001, 0b01111, 0b10001, 0b01111]),
    ('b', [0b10000, 0b10000, 0b10110, 0b11001, 0b10001, 0b10001, 0b11110]),
    ('c', [0, 0, 0b01110, 0b10000, 0b10000, 0b10001, 0b01110]),
    ('d', [0b00001, 0b00001, 0b01101, 0b10011, 0b10001, 0b10001, 0b01111]),
    ('e', [0, 0, 0b01110, 0b10001, 0b11111, 0b10000, 0b01110]),
    ('f', [0b00110, 0b01001, 0b01000, 0b11100, 0b01000, 0b01000, 0b01000]),
    ('g', [0, 0b01111, 0b10001, 0b10001, 0b01111, 0b00001, 0b01110]),
    ('h', [0b10000, 0b10000, 0b10110, 0b11001, 0b10001, 0b10001, 0b10001]),
    ('i', [0b00100, 0, 0b01100, 0b00100, 0b00100, 0b00100, 0b01110]),
    ('j', [0b00010, 0, 0b00110, 0b00010, 0b00010, 0b10010, 0b01100]),
    ('k', [0b10000, 0b10000, 0b10010, 0b10100, 0b11000, 0b10100, 0b10010]),
    ('l', [0b01100, 0b00100, 0b00100, 0b00100, 0b00100, 0b00100, 0b01110]),
    ('m', [0, 0, 0b11010, 0b10101, 0b10101, 0b10101, 0b10101]),
    ('n', [0, 0, 0b10110, 0b11001, 0b10001, 0b10001, 0b10001]),
    ('o', [0, 0, 0b01110, 0b10001, 0b10001, 0b10001, 0b01110]),
    ('p', [0, 0, 0b11110, 0b10001, 0b11110, 0b10000, 0b10000]),
    ('q', [0, 0, 0b01101, 0b10011, 0b01111, 0b00001, 0b00001]),
    ('r', [0, 0, 0b10110, 0b11001, 0b10000, 0b10000, 0b10000]),
    ('s', [0, 0, 0b01111, 0b10000, 0b01110, 0b00001, 0b11110]),
    ('t', [0b01000, 0b01000, 0b11100, 0b01000, 0b01000, 0b01001, 0b00110]),
    ('u', [0, 0, 0b10001, 0b10001, 0b10001, 0b10011, 0b01101]),
    ('v', [0, 0, 0b10001, 0b10001, 0b10001, 0b01010, 0b00100]),
    ('w', [0, 0, 0b10001, 0b10001, 0b10101, 0b10101, 0b01010]),
    ('x', [0, 0, 0b10001, 0b01010, 0b00100, 0b01010, 0b10001]),
    ('y', [0, 0, 0b10001, 0b10001, 0b01111, 0b00001, 0b01110]),
    ('z', [0, 0, 0b11111, 0b00010, 0b00100, 0b01000, 0b11111]),
    ('°', [0b01100, 0b10010, 0b10010, 0b01100, 0, 0, 0]),
    ('²', [0b01100, 0b10010, 0b00100, 0b01000, 0b11110, 0, 0]),
    ('µ', [0, 0, 0b10001, 0b10001, 0b10011, 0b11101, 0b10000]),
];

/// A picture of `width` by `height` pixels, initially black.
pub(super) struct Canvas {
    width: usize,
    height: usize,
    /// Red, green and blue of each pixel.
    pixels: Vec<u8>,
}

impl Canvas {
    pub fn new(width: usize, height: usize) -> Self {
        Self { width, height, pixels: vec![0; width * height * 3] }
    }

    /// Fills a rectangle. The part outside of the picture is left out.
    pub fn fill(&mut self, (x, y): (usize, usize), (width, height): (usize, usize), colour: [u8; 3]) {
        for row in y.min(self.height)..(y + height).min(self.height) {
            let start = (row * self.width + x.min(self.width)) * 3;
            let end = (row * self.width + (x + width).min(self.width)) * 3;
            self.pixels[start..end].as_chunks_mut().0.fill(colour);
        }
    }

    /// Writes a text at this position. A character that the font lacks is drawn as a box.
    pub fn text(&mut self, (x, y): (usize, usize), text: &str, colour: [u8; 3]) {
        for (place, c) in text.chars().enumerate() {
            let rows = FONT.iter().find(|(of, _)| *of == c).map_or([0b11111; CHAR_HEIGHT], |(_, rows)| *rows);
            for (row, bits) in rows.iter().enumerate() {
                for column in (0..5).filter(|column| bits & (0b10000 >> column) != 0) {
                    self.fill((x + place * CHAR_WIDTH + column, y + row), (1, 1), colour);
                }
            }
        }
    }

    /// Writes the picture as PNG.
    pub fn write_png(&self, file: impl Write) -> io::Result<()> {
        let size = |pixels: usize| u32::try_from(pixels).map_err(io::Error::other);
        let mut file = BufWriter::new(file);
        let mut encoder = png::Encoder::new(&mut file, size(self.width)?, size(self.height)?);
        encoder.set_color(png::ColorType::Rgb);
        encoder.set_depth(png::BitDepth::Eight);
        let io_error = |error| match error {
            png::EncodingError::IoError(error) => error,
            other => io::Error::other(other),
        };
        let mut writer = encoder.write_header().map_err(io_error)?;
        writer.write_image_data(&self.pixels).map_err(io_error)?;
        writer.finish().map_err(io_error)?;
        file.flush()
    }
}
