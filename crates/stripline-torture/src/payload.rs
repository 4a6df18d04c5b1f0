//! Packets that contain the sender, the number of the packet, and a checksum of everything.

/// Words before the filling. The checksum, one more word, follows the filling.
const HEAD_WORDS: usize = 3;
/// The maximum number of words of a packet.
pub const WORDS_MAX: usize = 200;

/// Returns the number of words of a packet.
pub fn words(incarnation: u64, sequence: u64) -> usize {
    let spread = (WORDS_MAX - HEAD_WORDS - 1) as u64;
    HEAD_WORDS + 1 + (mix(incarnation ^ sequence.rotate_left(32)) % spread) as usize
}

/// Writes a packet of [`words`] words.
pub fn fill(place: &mut [u64], incarnation: u64, sequence: u64) {
    let last = place.len() - 1;
    let length = place.len() as u64;
    place[..HEAD_WORDS].copy_from_slice(&[incarnation, sequence, length]);
    let mut word = mix(incarnation.wrapping_add(sequence));
    for place in &mut place[HEAD_WORDS..last] {
        word = mix(word);
        *place = word;
    }
    place[last] = checksum(&place[..last]);
}

/// Returns the sender and the number of a packet.
///
/// # Errors
/// When the packet is damaged.
pub fn check(packet: &[u64]) -> Result<(u64, u64), String> {
    let Some((sum, body)) = packet.split_last().filter(|(_, body)| body.len() >= HEAD_WORDS) else {
        return Err(format!("a packet of {} words", packet.len()));
    };
    let (incarnation, sequence) = (body[0], body[1]);
    let expected = words(incarnation, sequence);
    if body[2] != packet.len() as u64 || packet.len() != expected {
        return Err(format!("packet {sequence} of {incarnation} has {} words, not {expected}", packet.len()));
    }
    if *sum != checksum(body) {
        return Err(format!("packet {sequence} of {incarnation} has the wrong checksum"));
    }
    Ok((incarnation, sequence))
}

/// Returns FNV-1a, word by word (Fowler, Noll, Vo).
fn checksum(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |sum, word| (sum ^ word).wrapping_mul(0x0000_0100_0000_01b3))
}

/// Returns SplitMix64 (Steele, Lea, Flood 2014).
pub fn mix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A sequence of pseudo-random numbers that the seed determines.
#[derive(Debug)]
pub struct Rng(u64);

impl Rng {
    /// Begins the sequence for a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns a number from 0 to `bound`, excluding `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0) % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_word_is_found() {
        for sequence in 0..50 {
            let mut packet = vec![0; words(7, sequence)];
            fill(&mut packet, 7, sequence);
            assert_eq!(check(&packet), Ok((7, sequence)));
            for index in 0..packet.len() {
                packet[index] ^= 1;
                assert!(check(&packet).is_err());
                packet[index] ^= 1;
            }
            assert!(check(&packet[1..]).is_err());
        }
    }
}
