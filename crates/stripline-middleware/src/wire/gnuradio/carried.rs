//! Tags of GNU Radio in the description of a stream: the keyword `gnuradio-tags` is a list of
//! tuples in base64. Each tuple has the index of a sample, and the key, value and source of the tag
//! (decision 71).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use stripline::StreamInfo;

use super::{BadMessage, Pmt, Tag};

/// The keyword in the description of a stream for the tags of a packet.
pub const KEYWORD: &str = "gnuradio-tags";

/// The tags of a packet, as stored in the description of the stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedTags(Vec<Tag<'static>>);

impl CarriedTags {
    /// The maximum number of serialized bytes of all tags of a packet.
    pub const BYTES_MAX: usize = 12 * 1024;

    /// Returns the tags in the description of a stream; no tags if the keyword is missing.
    ///
    /// # Errors
    /// The keyword is not a list of tags.
    ///
    /// ```
    /// use stripline::StreamInfo;
    /// use stripline_middleware::gnuradio::{CarriedTags, Pmt, Tag};
    ///
    /// let key = Pmt::of_symbol("burst").unwrap();
    /// let tag = Tag { item: 3, key, value: Pmt::of_count(9), source: Pmt::of_false() };
    /// let mut carried = CarriedTags::default();
    /// assert!(carried.push(tag.clone()));
    /// let stream = carried.describe(StreamInfo::new("iq"));
    /// assert_eq!(CarriedTags::of(&stream).unwrap().tags(), [tag]);
    /// assert_eq!(CarriedTags::of(&StreamInfo::new("iq")).unwrap(), CarriedTags::default());
    /// ```
    pub fn of(stream: &StreamInfo) -> Result<Self, BadMessage> {
        let Some(text) = stream.keywords.get(KEYWORD) else { return Ok(Self::default()) };
        let bad =
            || BadMessage::new(format!("the keyword `{KEYWORD}` of the stream has no tags of GNU Radio"));
        let bytes = STANDARD.decode(text.as_str().ok_or_else(bad)?).map_err(|_| bad())?;
        let (list, rest) = Pmt::take(&bytes)?;
        if !rest.is_empty() {
            return Err(bad());
        }
        let mut tags = Vec::new();
        for one in list.parts().ok_or_else(bad)? {
            let parts: Option<[Pmt<'_>; 4]> = one.parts().and_then(|parts| parts.try_into().ok());
            let [item, key, value, source] = parts.ok_or_else(bad)?;
            let item = item.count().ok_or_else(bad)?;
            let [key, value, source] = [key, value, source].map(Pmt::into_owned);
            tags.push(Tag { item, key, value, source });
        }
        Ok(Self(tags))
    }

    /// Adds a tag, with the index of a sample as its item. Returns false if the tag does not fit.
    pub fn push(&mut self, tag: Tag<'_>) -> bool {
        let Tag { item, key, value, source } = tag;
        let [key, value, source] = [key, value, source].map(Pmt::into_owned);
        let tag = Tag { item, key, value, source };
        let bytes: usize = 1 + self.0.iter().chain([&tag]).map(listed_bytes).sum::<usize>();
        let fits = bytes <= Self::BYTES_MAX;
        if fits {
            self.0.push(tag);
        }
        fits
    }

    /// Returns the tags in the order in which they were added.
    pub fn tags(&self) -> &[Tag<'static>] {
        &self.0
    }

    /// Returns whether there are no tags.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the description with these tags. Without tags, the keyword is removed.
    #[must_use]
    pub fn describe(&self, mut stream: StreamInfo) -> StreamInfo {
        stream.keywords.remove(KEYWORD);
        if self.is_empty() { stream } else { stream.keyword(KEYWORD, STANDARD.encode(self.list().bytes())) }
    }

    fn list(&self) -> Pmt<'static> {
        let tuple = |tag: &Tag<'_>| {
            Pmt::of_tuple(&[Pmt::of_count(tag.item), tag.key.clone(), tag.value.clone(), tag.source.clone()])
        };
        Pmt::of_list(&self.0.iter().map(tuple).collect::<Vec<_>>())
    }
}

/// Returns the size of a tag in the list in bytes: a pair, a tuple, and the parts of the tag.
fn listed_bytes(tag: &Tag<'_>) -> usize {
    let parts = [&tag.key, &tag.value, &tag.source].map(|part| part.bytes().len());
    1 + 5 + 9 + parts.iter().sum::<usize>()
}
