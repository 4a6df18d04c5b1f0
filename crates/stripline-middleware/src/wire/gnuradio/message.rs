//! Messages of gr-zeromq's blocks for streams, with `pass_tags` (`tag_headers.cc`).

use std::borrow::Cow;

use super::{BadMessage, Pmt};

/// The first bytes of a message with tags: 0x5FF0 in the byte order of the host, and the version.
const MAGIC: [u8; 3] = [0xf0, 0x5f, VERSION];
/// The version of all blocks of GNU Radio up to 3.10.
const VERSION: u8 = 1;
/// The minimum size of a tag in bytes: the item, and three values.
const TAG_BYTES_MIN: u64 = 8 + 3;

/// A tag of an item in the sender's stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag<'a> {
    /// The number of the item in the sender's stream.
    pub item: u64,
    /// The key, usually a symbol.
    pub key: Pmt<'a>,
    /// The value.
    pub value: Pmt<'a>,
    /// The block that made the tag; the value "false" if it is unknown.
    pub source: Pmt<'a>,
}

/// A message with tags: the head before the samples, and the samples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaggedMessage<'a> {
    /// The number of the first item in the sender's stream.
    pub first_item: u64,
    /// The tags of the items.
    pub tags: Vec<Tag<'a>>,
    /// The items, as bytes.
    pub samples: &'a [u8],
}

impl<'a> TaggedMessage<'a> {
    /// Parses a message.
    ///
    /// # Errors
    /// The message is damaged or has no tags. A block with `pass_tags=False` sends messages without
    /// tags.
    ///
    /// ```
    /// use stripline_middleware::gnuradio::{Pmt, Tag, TaggedMessage};
    ///
    /// let key = Pmt::of_symbol("burst").unwrap();
    /// let tag = Tag { item: 41, key, value: Pmt::of_count(3), source: Pmt::of_false() };
    /// let mut bytes = Vec::new();
    /// TaggedMessage::write_head(&mut bytes, 40, std::slice::from_ref(&tag));
    /// bytes.extend([1, 2, 3]);
    /// let message = TaggedMessage::parse(&bytes).unwrap();
    /// assert_eq!((message.first_item, message.tags, message.samples), (40, vec![tag], &[1, 2, 3][..]));
    /// ```
    pub fn parse(bytes: &'a [u8]) -> Result<Self, BadMessage> {
        if let [first, second, version, ..] = bytes
            && [*first, *second] == MAGIC[..2]
            && *version != VERSION
        {
            return Err(BadMessage::new(format!(
                "the tags of the message have version {version} of their header, and version {VERSION} is read; send \
                 them from GNU Radio 3.8 to 3.10, or without `pass_tags`"
            )));
        }
        let Some(rest) = bytes.strip_prefix(&MAGIC) else {
            return Err(BadMessage::new(
                "the message has no tags; set `tags` to false, or `pass_tags` of the block in GNU Radio to True",
            ));
        };
        let (first_item, rest) = number(rest)?;
        let (count, mut rest) = number(rest)?;
        if count > rest.len() as u64 / TAG_BYTES_MIN {
            return Err(BadMessage::new(format!("{count} tags do not fit the message")));
        }
        let mut tags = Vec::with_capacity(count as usize);
        for _ in 0..count {
            let (item, behind) = number(rest)?;
            let (key, behind) = Pmt::take(behind)?;
            let (value, behind) = Pmt::take(behind)?;
            let (source, behind) = Pmt::take(behind)?;
            tags.push(Tag { item, key, value, source });
            rest = behind;
        }
        Ok(Self { first_item, tags, samples: rest })
    }

    /// Returns whether a message has tags: the beginning is right, and the message is whole.
    pub fn is_tagged(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC) && TaggedMessage::parse(bytes).is_ok()
    }

    /// Writes the head before the samples.
    pub fn write_head(into: &mut Vec<u8>, first_item: u64, tags: &[Tag<'_>]) {
        into.extend(MAGIC);
        into.extend(first_item.to_le_bytes());
        into.extend((tags.len() as u64).to_le_bytes());
        for tag in tags {
            into.extend(tag.item.to_le_bytes());
            [&tag.key, &tag.value, &tag.source].iter().for_each(|value| into.extend(value.bytes()));
        }
    }
}

/// Joins the parts of a message of ZeroMQ, and returns the messages of GNU Radio. With tags, a new
/// message begins at each part that begins like a message with tags.
///
/// ```
/// use stripline_middleware::gnuradio::join_parts;
///
/// let parts = [&[1, 2][..], &[3]];
/// assert_eq!(join_parts(parts.into_iter(), false), [&[1, 2, 3][..]]);
/// ```
pub fn join_parts<'a>(parts: impl Iterator<Item = &'a [u8]>, has_tags: bool) -> Vec<Cow<'a, [u8]>> {
    let mut messages: Vec<Cow<'a, [u8]>> = Vec::with_capacity(1);
    for part in parts {
        match messages.last_mut() {
            Some(message) if !(has_tags && TaggedMessage::is_tagged(part)) => {
                message.to_mut().extend_from_slice(part);
            }
            _ => messages.push(Cow::Borrowed(part)),
        }
    }
    messages
}

/// Takes a number from the front of the bytes, in the byte order of the hosts that GNU Radio runs
/// on: little-endian.
fn number(bytes: &[u8]) -> Result<(u64, &[u8]), BadMessage> {
    let (first, rest) = bytes
        .split_first_chunk()
        .ok_or_else(|| BadMessage::new("the message ends within the tags that it begins with"))?;
    Ok((u64::from_le_bytes(*first), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(first_item: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        TaggedMessage::write_head(&mut bytes, first_item, &[]);
        bytes
    }

    #[test]
    fn parts_are_joined_up_to_the_next_message() {
        let (one, two) = (head(0), [head(3), vec![4]].concat());
        let parts = [&one[..], &[1, 2], &[3], &two];
        let messages = join_parts(parts.into_iter(), true);
        let [first, second] = &messages[..] else { panic!("{messages:?}") };
        let first = TaggedMessage::parse(first).unwrap();
        assert_eq!((first.first_item, first.samples), (0, &[1, 2, 3][..]));
        let second = TaggedMessage::parse(second).unwrap();
        assert_eq!((second.first_item, second.samples), (3, &[4][..]));
    }

    #[test]
    fn another_version_of_the_header_is_named() {
        let mut bytes = head(0);
        bytes[2] = 2;
        let error = TaggedMessage::parse(&bytes).unwrap_err().to_string();
        assert!(error.contains("version 2") && error.contains("GNU Radio 3.8 to 3.10"), "{error}");
    }
}
