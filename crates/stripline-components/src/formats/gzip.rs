//! The content of files that are compressed with gzip.

use std::io::{self, BufRead, ErrorKind, Read};

use flate2::bufread::GzDecoder;

/// A reader of all members of a gzip file. Zeros behind the last member, as tapes have, are
/// ignored.
pub(super) struct Unpacked<R> {
    /// The decoder of the current member; `None`: there are no more members.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> Unpacked<R> {
    pub(super) fn new(packed: R) -> Self {
        Self { member: Some(GzDecoder::new(packed)) }
    }
}

impl<R: BufRead> Read for Unpacked<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = self.member.as_mut().filter(|_| !out.is_empty()) {
            match member.read(out) {
                Ok(0) => {}
                Err(error) if is_damage(error.kind()) => return Err(damaged(&error)),
                read => return read,
            }
            let mut rest = self.member.take().map(GzDecoder::into_inner);
            if let Some(packed) = rest.as_mut()
                && skip_zeros(packed)?
            {
                self.member = rest.map(GzDecoder::new);
            }
        }
        Ok(0)
    }
}

/// A reader of the first bytes of a gzip file. The rest is unpacked, too: the checksum is at the
/// end of the file.
pub(super) struct Start<R> {
    pub(super) unpacked: R,
    /// The number of bytes that are left to return.
    pub(super) left: u64,
}

impl<R: Read> Read for Start<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let count = self.unpacked.by_ref().take(self.left).read(out)?;
        self.left -= count as u64;
        if count == 0 && !out.is_empty() {
            io::copy(&mut self.unpacked, &mut io::sink())?;
        }
        Ok(count)
    }
}

/// Skips zeros. Returns whether other bytes follow.
fn skip_zeros(packed: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = packed.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
        let is_other = zeros < bytes.len();
        packed.consume(zeros);
        if is_other {
            return Ok(true);
        }
    }
}

fn is_damage(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::InvalidData | ErrorKind::InvalidInput | ErrorKind::UnexpectedEof)
}

fn damaged(error: &io::Error) -> io::Error {
    io::Error::other(format!("damaged or truncated gzip ({error}): copy the file again"))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn unpacked(bytes: &[u8]) -> Result<Vec<u8>, String> {
        let mut all = Vec::new();
        let read = Unpacked::new(bytes).read_to_end(&mut all);
        read.map(|_| all).map_err(|error| error.to_string())
    }

    #[test]
    fn members_are_joined_and_zeros_behind_them_are_ignored() {
        let two = [packed(b"one"), packed(b"two"), vec![0; 512]].concat();
        assert_eq!(unpacked(&two).unwrap(), b"onetwo");
    }

    #[test]
    fn damage_is_reported_with_a_remedy() {
        let whole = packed(b"samples");
        let mut flipped = whole.clone();
        flipped[whole.len() - 6] ^= 1;
        for bytes in [&whole[..whole.len() - 3], &flipped, &[&whole[..], b"behind"].concat()] {
            let message = unpacked(bytes).unwrap_err();
            assert!(
                message.contains("damaged or truncated gzip (") && message.ends_with("again"),
                "{message}"
            );
        }
    }

    #[test]
    fn damage_behind_the_returned_bytes_is_reported_too() {
        let whole = packed(b"samples and a chunk");
        for (bytes, is_whole) in [(&whole[..], true), (&whole[..whole.len() - 3], false)] {
            let mut start = Start { unpacked: Unpacked::new(bytes), left: 7 };
            let mut samples = [0; 7];
            start.read_exact(&mut samples).unwrap();
            assert_eq!((&samples, start.read(&mut [0; 9]).is_ok()), (b"samples", is_whole));
        }
    }
}
