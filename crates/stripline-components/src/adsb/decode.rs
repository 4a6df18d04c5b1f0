//! Decoding of candidates to frames, verified by their parity.

use std::collections::{BTreeMap, VecDeque};

use super::candidate::Candidate;
use super::frame::Frame;

/// Samples in a preamble (8 µs) at 2 Msample/s.
const PREAMBLE_SAMPLES: u64 = 16;
/// Samples in a long frame, including the preamble.
const LONG_FRAME_SAMPLES: u64 = 240;
/// Number of accepted frames that are kept to detect duplicates. Not more frames can overlap within
/// the 240 samples of a long frame.
const RECENT_FRAMES: usize = 32;
/// Number of possible remainders of an all-call reply: interrogator and surveillance identifiers,
/// with the code label (ICAO Annex 10, volume IV, 3.1.2.3.3.2).
const INTERROGATOR_CODES: u32 = 80;

/// The rules by which a [`Decoder`] accepts frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecoderConfig {
    /// How long an address stays confirmed after the last frame with plain parity, in samples.
    /// Default: one minute at 2 Msample/s.
    pub address_lifetime_samples: u64,
    /// The maximum number of stored addresses, at least 1. A new address replaces the address that
    /// was received the longest ago. Default: 4096.
    pub addresses_max: usize,
    /// The longest run of wrong bits that is corrected in a format with plain parity (11, 17, 18),
    /// 0 to 24. Default: 1.
    ///
    /// Errors come in runs: if pulses straddle two samples evenly, a run of ones differs from a run
    /// of zeros only in the first and last samples.
    pub correct_bits_max: u8,
    /// Whether a corrected frame is accepted from an unconfirmed address. Default: false, because
    /// one in 150 000 random long frames resembles a valid frame with one wrong bit.
    pub correct_unknown: bool,
}

impl Default for DecoderConfig {
    fn default() -> Self {
        Self {
            address_lifetime_samples: 60 * 2_000_000,
            addresses_max: 4096,
            correct_bits_max: 1,
            correct_unknown: false,
        }
    }
}

/// A frame with correct parity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Accepted {
    /// The frame, after any correction.
    pub frame: Frame,
    /// The address of the aircraft, 24 bits.
    pub address: u32,
    /// Index of the sample in which the preamble starts, as in the candidate.
    pub sample: u64,
    /// Delay of the preamble relative to the start of this sample, in samples, 0 to 1.
    pub fraction: f32,
    /// Power of the pulses of the preamble in dB relative to full scale.
    pub level_dbfs: f32,
    /// Number of corrected bits; 0 for a frame received without error.
    pub corrected_bits: u8,
}

impl Accepted {
    /// Creates an accepted frame from a trusted source, at a sample and with unknown level (minus
    /// infinity).
    #[must_use]
    pub fn whole(frame: Frame, sample: u64) -> Self {
        Self {
            frame,
            address: frame.address(),
            sample,
            fraction: 0.0,
            level_dbfs: f32::NEG_INFINITY,
            corrected_bits: 0,
        }
    }
}

/// A decoder that accepts candidates with correct parity.
///
/// - Extended squitters (17, 18) leave no remainder. All-call replies (11) leave none, or an
///   interrogator's code. A code is accepted if the address is confirmed and has already replied to
///   this interrogator. One or two wrong bits in the parity field resemble a code, but rarely the
///   same code twice.
/// - In these formats, a wrong bit or a short run of wrong bits is corrected if the corrected
///   address is confirmed.
/// - In the other formats (0, 4, 5, 16, 20, 21, 24), the remainder must be a confirmed address.
///
/// A frame of the first kind, without remainder or correction, confirms an address for a while.
/// Time is counted in samples, so that the same candidates always give the same frames.
///
/// ```
/// use stripline_components::adsb::decode::{Decoder, DecoderConfig};
/// use stripline_components::adsb::demodulate::{Demodulator, DemodulatorConfig};
/// use num_complex::Complex;
///
/// let mut demodulator = Demodulator::new(DemodulatorConfig::default());
/// let mut decoder = Decoder::new(DecoderConfig::default());
/// let samples = [Complex::new(127u8, 128); 1000];
/// demodulator.push(&samples, |candidate| {
///     if let Some(accepted) = decoder.decode(&candidate) {
///         println!("{}", accepted.frame);
///     }
/// });
/// ```
#[derive(Debug, Clone)]
pub struct Decoder {
    config: DecoderConfig,
    known: BTreeMap<u32, AddressRecord>,
    recent: VecDeque<Recent>,
}

/// The record of an address.
#[derive(Debug, Clone, Copy)]
struct AddressRecord {
    /// The time of the last frame with plain parity, in samples.
    heard: u64,
    /// The interrogator's code of the last reply, and the time of this reply, in samples.
    code: Option<(u32, u64)>,
}

/// A recently accepted frame.
#[derive(Debug, Clone, Copy)]
struct Recent {
    start: u64,
    end: u64,
    frame: Frame,
}

/// The evidence by which a frame is accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// The parity alone.
    Parity,
    /// The parity together with a confirmed address.
    KnownAddress,
    /// The parity, after this number of bits was corrected.
    Corrected(u8),
}

impl Decoder {
    /// Creates a decoder without confirmed addresses.
    #[must_use]
    pub fn new(config: DecoderConfig) -> Self {
        Self { config, known: BTreeMap::new(), recent: VecDeque::with_capacity(RECENT_FRAMES) }
    }

    /// Sets other rules for the next candidates. Confirmed addresses are kept.
    pub fn set_config(&mut self, config: DecoderConfig) {
        self.config = config;
    }

    /// Returns the frame in `candidate` if the parity is correct and the frame has not been
    /// accepted already.
    ///
    /// Candidates must come in the order of the demodulator.
    pub fn decode(&mut self, candidate: &Candidate) -> Option<Accepted> {
        let received = candidate.frame()?;
        let (frame, proof) = self.prove(received, candidate.sample)?;
        if self.is_repeated(&frame, proof, candidate.sample) {
            return None;
        }
        let address = frame.address();
        if proof == Proof::Parity {
            self.learn(address, candidate.sample);
        }
        self.remember(frame, candidate.sample);
        Some(Accepted {
            frame,
            address,
            sample: candidate.sample,
            fraction: candidate.fraction,
            level_dbfs: candidate.level_dbfs,
            corrected_bits: match proof {
                Proof::Corrected(bits) => bits,
                Proof::Parity | Proof::KnownAddress => 0,
            },
        })
    }

    /// Returns whether `address` is confirmed at `sample`: it recently sent a frame with plain
    /// parity.
    #[must_use]
    pub fn knows(&self, address: u32, sample: u64) -> bool {
        self.known
            .get(&address)
            .is_some_and(|known| sample.saturating_sub(known.heard) <= self.config.address_lifetime_samples)
    }

    /// Returns the number of stored addresses.
    #[must_use]
    pub fn known_addresses(&self) -> usize {
        self.known.len()
    }

    fn prove(&mut self, received: Frame, sample: u64) -> Option<(Frame, Proof)> {
        let remainder = received.remainder();
        match received.downlink_format() {
            11 | 17 | 18 if received.announced_address() == Some(0) => None,
            11 | 17 | 18 if remainder == 0 => Some((received, Proof::Parity)),
            11 if self.is_code_again(received.address(), remainder, sample) => {
                Some((received, Proof::KnownAddress))
            }
            11 | 17 | 18 => self.correct(received, remainder, sample),
            0 | 4 | 5 | 16 | 20 | 21 | 24 if self.knows(remainder, sample) => {
                Some((received, Proof::KnownAddress))
            }
            _ => None,
        }
    }

    /// Returns whether the address is confirmed and its last reply had the interrogator's code
    /// `remainder`, too.
    fn is_code_again(&mut self, address: u32, remainder: u32, sample: u64) -> bool {
        if remainder >= INTERROGATOR_CODES || !self.knows(address, sample) {
            return false;
        }
        let Some(known) = self.known.get_mut(&address) else { return false };
        // The same transmission, decoded at two positions, is not evidence.
        let again = known.code.is_some_and(|(code, when)| {
            code == remainder && sample.saturating_sub(when) >= LONG_FRAME_SAMPLES
        });
        if again || known.code.is_none_or(|(code, _)| code != remainder) {
            known.code = Some((remainder, sample));
        }
        again
    }

    fn correct(&self, received: Frame, remainder: u32, sample: u64) -> Option<(Frame, Proof)> {
        let longest = usize::from(self.config.correct_bits_max.min(24));
        let (first, length) = received.run_of_syndrome(remainder, longest)?;
        let frame = (first..first + length).try_fold(received, |frame, bit| frame.with_bit_flipped(bit))?;
        let accepted = self.config.correct_unknown || self.knows(frame.announced_address()?, sample);
        accepted.then_some((frame, Proof::Corrected(length as u8)))
    }

    /// Returns whether this frame has already been accepted, or was decoded from the middle of an
    /// accepted frame.
    fn is_repeated(&self, frame: &Frame, proof: Proof, sample: u64) -> bool {
        self.recent.iter().any(|recent| {
            (recent.start..recent.end).contains(&sample) && (recent.frame == *frame || proof != Proof::Parity)
        })
    }

    fn remember(&mut self, frame: Frame, sample: u64) {
        if self.recent.len() == RECENT_FRAMES {
            self.recent.pop_front();
        }
        let samples = PREAMBLE_SAMPLES + 2 * frame.bits() as u64;
        self.recent.push_back(Recent { start: sample, end: sample.saturating_add(samples), frame });
    }

    fn learn(&mut self, address: u32, sample: u64) {
        let room = self.config.addresses_max.max(1);
        if self.known.len() >= room && !self.known.contains_key(&address) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.heard).map(|(&address, _)| address);
            if let Some(oldest) = oldest {
                self.known.remove(&oldest);
            }
        }
        self.known.entry(address).or_insert(AddressRecord { heard: sample, code: None }).heard = sample;
    }
}

#[cfg(test)]
mod tests {
    use bytemuck::Zeroable;
    use proptest::prelude::*;

    use super::*;

    const SQUITTER: &str = "*8d406b902015a678d4d220aa4bda;";
    const ADDRESS: u32 = 0x0040_6b90;

    fn candidate(frame: Frame, sample: u64) -> Candidate {
        let mut candidate = Candidate { sample, ..Candidate::zeroed() };
        let bytes = frame.as_bytes();
        candidate.bytes[..bytes.len()].copy_from_slice(bytes);
        candidate.length = bytes.len() as u8;
        candidate
    }

    fn squitter() -> Frame {
        SQUITTER.parse().unwrap()
    }

    fn short(first: u8, remainder: u32) -> Frame {
        let [_, a, b, c] = ADDRESS.to_be_bytes();
        Frame::new(&[first, a, b, c, 0, 0, 0]).unwrap().with_remainder(remainder)
    }

    #[test]
    fn an_overlaid_address_must_be_known_and_recent() {
        let mut decoder = Decoder::new(DecoderConfig::default());
        let reply = short(0x20, ADDRESS);
        assert_eq!(decoder.decode(&candidate(reply, 0)), None);
        assert!(decoder.decode(&candidate(squitter(), 1000)).is_some());
        let accepted = decoder.decode(&candidate(reply, 2000)).unwrap();
        assert_eq!((accepted.address, accepted.frame), (ADDRESS, reply));
        assert_eq!(decoder.decode(&candidate(reply, 121_000_000)), None);
    }

    #[test]
    fn an_all_call_reply_to_an_interrogator_needs_a_known_address() {
        let mut decoder = Decoder::new(DecoderConfig::default());
        let to_interrogator = short(0x5d, 5);
        assert_eq!(decoder.decode(&candidate(to_interrogator, 0)), None);
        assert!(decoder.decode(&candidate(short(0x5d, 0), 1000)).is_some());
        let first = decoder.decode(&candidate(to_interrogator, 2000));
        assert_eq!(first, None);
        assert_eq!(decoder.decode(&candidate(to_interrogator, 2001)), None);
        assert!(decoder.decode(&candidate(to_interrogator, 3000)).is_some());
        assert_eq!(decoder.decode(&candidate(short(0x5d, 80 ^ 0x0080_0000), 4000)), None);
    }

    #[test]
    fn a_single_error_is_corrected_once_the_address_is_known() {
        let mut decoder = Decoder::new(DecoderConfig::default());
        let wrong = squitter().with_bit_flipped(77).unwrap();
        assert_eq!(decoder.decode(&candidate(wrong, 0)), None);
        assert!(decoder.decode(&candidate(squitter(), 1000)).is_some());
        let accepted = decoder.decode(&candidate(wrong, 2000)).unwrap();
        assert_eq!((accepted.frame, accepted.corrected_bits), (squitter(), 1));
        let worse = wrong.with_bit_flipped(20).unwrap();
        assert_eq!(decoder.decode(&candidate(worse, 3000)), None);
    }

    #[test]
    fn a_frame_is_accepted_once_per_transmission() {
        let mut decoder = Decoder::new(DecoderConfig::default());
        assert!(decoder.decode(&candidate(squitter(), 1000)).is_some());
        assert_eq!(decoder.decode(&candidate(squitter(), 1001)), None);
        assert!(decoder.decode(&candidate(squitter(), 1240)).is_some());
    }

    #[test]
    fn memory_is_bounded() {
        let mut decoder = Decoder::new(DecoderConfig { addresses_max: 10, ..DecoderConfig::default() });
        for n in 1..=100u8 {
            let frame = Frame::new(&[0x5d, 0, 0, n, 0, 0, 0]).unwrap().with_remainder(0);
            assert!(decoder.decode(&candidate(frame, 1000 * u64::from(n))).is_some());
        }
        assert_eq!(decoder.known_addresses(), 10);
        assert!(decoder.knows(100, 100_000) && decoder.knows(91, 100_000) && !decoder.knows(90, 100_000));
    }

    proptest! {
        #[test]
        fn no_candidate_panics_or_passes_with_wrong_parity(
            all in prop::collection::vec((any::<u64>(), any::<[u8; 14]>(), any::<u8>()), 0..50)
        ) {
            let mut decoder = Decoder::new(DecoderConfig::default());
            for (sample, bytes, length) in all {
                let candidate = Candidate { sample, bytes, length, ..Candidate::zeroed() };
                if let Some(accepted) = decoder.decode(&candidate) {
                    prop_assert!(accepted.frame.remainder() < INTERROGATOR_CODES);
                }
            }
        }
    }
}
