//! Values of GNU Radio in their serialized form: polymorphic types (PMT), `pmt_serialize.h`.

use std::borrow::Cow;

use super::BadMessage;

/// The kinds of serialized values. The kind is the first byte of a value.
mod kind {
    pub const TRUE: u8 = 0x00;
    pub const FALSE: u8 = 0x01;
    pub const SYMBOL: u8 = 0x02;
    pub const INT32: u8 = 0x03;
    pub const DOUBLE: u8 = 0x04;
    pub const COMPLEX: u8 = 0x05;
    pub const NULL: u8 = 0x06;
    pub const PAIR: u8 = 0x07;
    pub const VECTOR: u8 = 0x08;
    pub const DICT: u8 = 0x09;
    pub const UNIFORM_VECTOR: u8 = 0x0a;
    pub const UINT64: u8 = 0x0b;
    pub const TUPLE: u8 = 0x0c;
    pub const INT64: u8 = 0x0d;
}

/// The size of an element of a uniform vector in bytes, by type: `u8`, `s8`, …, `f32`, `f64`,
/// `c32`, `c64`.
const UNIFORM_BYTES: [u64; 12] = [1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16];

/// A serialized value: the bytes of a whole value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pmt<'a>(Cow<'a, [u8]>);

impl<'a> Pmt<'a> {
    /// Takes a value from the front of some bytes. Returns the value and the rest of the bytes.
    ///
    /// # Errors
    /// The bytes end within the value, or the kind does not exist.
    ///
    /// ```
    /// use stripline_middleware::gnuradio::Pmt;
    ///
    /// let (value, rest) = Pmt::take(b"\x02\x00\x03keyrest").unwrap();
    /// assert_eq!((value.symbol(), rest), (Some("key"), &b"rest"[..]));
    /// assert!(Pmt::take(b"\x02\x00\x09key").unwrap_err().to_string().contains("ends within"));
    /// ```
    pub fn take(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), BadMessage> {
        let mut left = Unread(bytes);
        // The number of values that are still to be read, including nested values.
        let mut missing: u64 = 1;
        while missing > 0 {
            missing -= 1;
            let within = left.value_head()?;
            // Each value takes at least one byte, so the number of values cannot exceed the number
            // of bytes.
            missing += within;
            if missing > left.0.len() as u64 {
                return Err(ends_within());
            }
        }
        let (value, rest) = bytes.split_at(bytes.len() - left.0.len());
        Ok((Self(value.into()), rest))
    }

    /// Returns the serialized bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the value with its own copy of the bytes.
    pub fn into_owned(self) -> Pmt<'static> {
        Pmt(self.0.into_owned().into())
    }

    /// Returns the text of a symbol; `None` for other values, and for a symbol that is not UTF-8.
    pub fn symbol(&self) -> Option<&str> {
        if self.kind() != kind::SYMBOL {
            return None;
        }
        std::str::from_utf8(&self.0[3..]).ok()
    }

    /// Returns the number of a finite integer or real value; `None` for other values.
    ///
    /// ```
    /// use stripline_middleware::gnuradio::Pmt;
    ///
    /// assert_eq!(Pmt::of_number(48e3).number(), Some(48e3));
    /// assert_eq!(Pmt::of_count(7).number(), Some(7.0));
    /// assert_eq!(Pmt::of_symbol("rx_rate").unwrap().number(), None);
    /// ```
    pub fn number(&self) -> Option<f64> {
        let mut left = Unread(&self.0[1..]);
        let number = match self.kind() {
            kind::INT32 => f64::from(u32::from_be_bytes(left.array().ok()?).cast_signed()),
            kind::INT64 => u64::from_be_bytes(left.array().ok()?).cast_signed() as f64,
            kind::UINT64 => u64::from_be_bytes(left.array().ok()?) as f64,
            kind::DOUBLE => f64::from_be_bytes(left.array().ok()?),
            _ => return None,
        };
        Some(number).filter(|number| number.is_finite())
    }

    /// Returns a count: an integer value that is not negative; `None` for other values.
    pub fn count(&self) -> Option<u64> {
        let mut left = Unread(&self.0[1..]);
        match self.kind() {
            kind::INT32 => u32::from_be_bytes(left.array().ok()?).cast_signed().try_into().ok(),
            kind::INT64 => u64::from_be_bytes(left.array().ok()?).cast_signed().try_into().ok(),
            kind::UINT64 => left.array().ok().map(u64::from_be_bytes),
            _ => None,
        }
    }

    /// Returns the values of a tuple or a list, in order; `None` for other values.
    ///
    /// ```
    /// use stripline_middleware::gnuradio::Pmt;
    ///
    /// let time = Pmt::of_tuple(&[Pmt::of_count(1_700_000_000), Pmt::of_number(0.5)]);
    /// let parts = time.parts().unwrap();
    /// assert_eq!((parts[0].count(), parts[1].number()), (Some(1_700_000_000), Some(0.5)));
    /// assert_eq!(Pmt::of_list(&parts).parts().unwrap(), parts);
    /// ```
    pub fn parts(&self) -> Option<Vec<Pmt<'_>>> {
        let mut parts = Vec::new();
        let mut rest = &self.0[..];
        match self.kind() {
            kind::TUPLE => {
                rest = &rest[5..];
                while !rest.is_empty() {
                    let (part, behind) = Pmt::take(rest).ok()?;
                    parts.push(part);
                    rest = behind;
                }
            }
            kind::PAIR | kind::NULL => {
                while rest.first() == Some(&kind::PAIR) {
                    let (part, behind) = Pmt::take(&rest[1..]).ok()?;
                    parts.push(part);
                    rest = behind;
                }
                if rest != [kind::NULL] {
                    return None;
                }
            }
            _ => return None,
        }
        Some(parts)
    }

    fn kind(&self) -> u8 {
        self.0[0]
    }
}

impl Pmt<'static> {
    /// Returns a symbol; `None` if the text has more than 65535 bytes.
    pub fn of_symbol(text: &str) -> Option<Self> {
        let length = u16::try_from(text.len()).ok()?;
        let mut bytes = vec![kind::SYMBOL];
        bytes.extend(length.to_be_bytes());
        bytes.extend(text.as_bytes());
        Some(Self(bytes.into()))
    }

    /// Returns a real number.
    pub fn of_number(number: f64) -> Self {
        let mut bytes = vec![kind::DOUBLE];
        bytes.extend(number.to_be_bytes());
        Self(bytes.into())
    }

    /// Returns a count.
    pub fn of_count(count: u64) -> Self {
        let mut bytes = vec![kind::UINT64];
        bytes.extend(count.to_be_bytes());
        Self(bytes.into())
    }

    /// Returns the value "false", which is the source of a tag without a source.
    pub fn of_false() -> Self {
        Self(vec![kind::FALSE].into())
    }

    /// Returns a tuple.
    pub fn of_tuple(parts: &[Pmt<'_>]) -> Self {
        let mut bytes = vec![kind::TUPLE];
        bytes.extend((parts.len() as u32).to_be_bytes());
        parts.iter().for_each(|part| bytes.extend(part.bytes()));
        Self(bytes.into())
    }

    /// Returns a list.
    pub fn of_list(parts: &[Pmt<'_>]) -> Self {
        let mut bytes = Vec::new();
        for part in parts {
            bytes.push(kind::PAIR);
            bytes.extend(part.bytes());
        }
        bytes.push(kind::NULL);
        Self(bytes.into())
    }
}

/// The bytes that are still to be read.
struct Unread<'a>(&'a [u8]);

impl Unread<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], BadMessage> {
        let (first, rest) = self.0.split_first_chunk().ok_or_else(ends_within)?;
        self.0 = rest;
        Ok(*first)
    }

    fn skip(&mut self, bytes: u64) -> Result<(), BadMessage> {
        let bytes = usize::try_from(bytes).map_err(|_| ends_within())?;
        self.0 = self.0.get(bytes..).ok_or_else(ends_within)?;
        Ok(())
    }

    /// Reads a value up to the values nested in it, and returns their number.
    fn value_head(&mut self) -> Result<u64, BadMessage> {
        let [first] = self.array()?;
        let bytes = match first {
            kind::TRUE | kind::FALSE | kind::NULL => 0,
            kind::INT32 => 4,
            kind::DOUBLE | kind::UINT64 | kind::INT64 => 8,
            kind::COMPLEX => 16,
            kind::SYMBOL => u16::from_be_bytes(self.array()?).into(),
            // The second value of a pair may be a pair again: the rest of a list.
            kind::PAIR | kind::DICT => return Ok(2),
            kind::VECTOR | kind::TUPLE => return Ok(u32::from_be_bytes(self.array()?).into()),
            kind::UNIFORM_VECTOR => {
                let [of] = self.array()?;
                let elements = u64::from(u32::from_be_bytes(self.array()?));
                let [padding] = self.array()?;
                let one =
                    UNIFORM_BYTES.get(usize::from(of)).ok_or_else(|| unknown("type of a vector", of))?;
                u64::from(padding) + elements * one
            }
            other => return Err(unknown("kind of value", other)),
        };
        self.skip(bytes)?;
        Ok(0)
    }
}

fn ends_within() -> BadMessage {
    BadMessage::new("a value of GNU Radio ends within the bytes that there are")
}

fn unknown(what: &str, number: u8) -> BadMessage {
    BadMessage::new(format!("{number:#04x} is not a {what} of GNU Radio"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
    }

    /// The results of `pmt.serialize_str` of GNU Radio 3.10.5.
    const SERIALIZED: [(&str, &str); 15] = [
        ("pmt.intern('rx_rate')", "02000772785f72617465"),
        ("pmt.from_double(48e3)", "0440e7700000000000"),
        ("pmt.from_uint64(5)", "0b0000000000000005"),
        (
            "pmt.make_tuple(pmt.from_uint64(1), pmt.from_double(.5))",
            "0c000000020b0000000000000001043fe0000000000000",
        ),
        ("pmt.from_long(7)", "0300000007"),
        ("pmt.from_long(1 << 40)", "0d0000010000000000"),
        ("pmt.from_long(-3)", "03fffffffd"),
        ("pmt.list2(pmt.intern('a'), pmt.PMT_T)", "0702000161070006"),
        ("pmt.dict_add(pmt.make_dict(), pmt.intern('k'), pmt.from_long(1))", "09070200016b030000000106"),
        ("pmt.init_f32vector(2, [1, 2])", "0a080000000201003f80000040000000"),
        ("pmt.init_u8vector(3, [1, 2, 3])", "0a00000000030100010203"),
        ("pmt.PMT_F", "01"),
        ("pmt.PMT_NIL", "06"),
        ("pmt.from_complex(1 + 2j)", "053ff00000000000004000000000000000"),
        ("pmt.make_vector(2, pmt.PMT_T)", "08000000020000"),
    ];

    #[test]
    fn what_gnu_radio_serializes_is_taken_whole_and_no_part_of_it() {
        for (made, hex) in SERIALIZED {
            let whole = bytes(hex);
            let behind = [&whole[..], b"behind"].concat();
            let (value, rest) = Pmt::take(&behind).unwrap();
            assert_eq!((value.bytes(), rest), (&whole[..], &b"behind"[..]), "{made}");
            for length in 0..whole.len() {
                assert!(Pmt::take(&whole[..length]).is_err(), "{made}, {length} bytes");
            }
        }
    }

    #[test]
    fn what_is_made_here_is_what_gnu_radio_makes() {
        let (rate, half) = (Pmt::of_symbol("rx_rate").unwrap(), Pmt::of_number(0.5));
        let time = Pmt::of_tuple(&[Pmt::of_count(1), half]);
        let list = Pmt::of_list(&[Pmt::of_symbol("a").unwrap(), Pmt(vec![kind::TRUE].into())]);
        let made =
            [rate, Pmt::of_number(48e3), Pmt::of_count(5), time, list, Pmt::of_false(), Pmt::of_list(&[])];
        for (made, index) in made.iter().zip([0, 1, 2, 3, 7, 11, 12]) {
            assert_eq!(made.bytes(), bytes(SERIALIZED[index].1), "{}", SERIALIZED[index].0);
        }
        assert_eq!(Pmt::of_symbol(&"x".repeat(65_536)), None);
    }

    #[test]
    fn numbers_have_their_values() {
        let numbers = |index: usize| {
            let whole = bytes(SERIALIZED[index].1);
            let (value, _) = Pmt::take(&whole).unwrap();
            (value.number(), value.count())
        };
        assert_eq!(numbers(4), (Some(7.0), Some(7)));
        assert_eq!(numbers(5), (Some(1_099_511_627_776.0), Some(1 << 40)));
        assert_eq!(numbers(6), (Some(-3.0), None));
        assert_eq!(numbers(1), (Some(48e3), None));
        assert_eq!(numbers(13), (None, None));
        assert_eq!(Pmt::of_number(f64::NAN).number(), None);
    }

    #[test]
    fn what_is_deep_or_asks_for_much_is_refused_or_taken_without_a_stack_or_memory() {
        let deep = [vec![kind::PAIR; 1_000_000], vec![kind::NULL; 1_000_001]].concat();
        assert_eq!(Pmt::take(&deep).unwrap().0.bytes().len(), deep.len());
        for many in
            ["08ffffffff0000", "0cffffffff0000", "0a0bffffffff0100", "02ffff61", "0a0cffffffff0100", "0e"]
        {
            assert!(Pmt::take(&bytes(many)).is_err(), "{many}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_refused_or_taken_in_part(bytes in proptest::collection::vec(0..16u8, 0..64)) {
            if let Ok((value, rest)) = Pmt::take(&bytes) {
                prop_assert_eq!([value.bytes(), rest].concat(), bytes.clone());
                let _ = (value.symbol(), value.number(), value.count(), value.parts());
            }
        }
    }
}
