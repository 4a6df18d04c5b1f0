//! `beamformer`: the weighted sum of the channels of a stream.

use num_complex::Complex;
use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, OrderRule, PortTypes, Ports, Properties, PropertySpec,
    RateRule,
};
use stripline::{Error, Packet, Result, StreamInfo};

use super::stream_order::between;
use super::timing::time_after;

type Iq = Complex<f32>;

/// The most samples of a frame with all channels, which is kept until it is whole.
const FRAME_SAMPLES_MAX: u64 = 1 << 24;

/// The component `beamformer`.
pub struct Beamformer {
    /// Empty: equal weights.
    weights: Vec<Iq>,
}

impl Component for Beamformer {
    fn describe() -> ComponentSpec {
        let weights = "weight of each channel, as `1, 0.7-0.7j`; empty: 1 / n for each of n channels";
        ComponentSpec::new("beamformer", "Adds the channels of a stream, each times a complex weight.")
            .input("in", PortTypes::of::<Iq>(), "samples of several channels in turn, or rows of them")
            .output("out", PortTypes::of::<Iq>(), "the weighted sum")
            .sample_rate(RateRule::input("in"))
            .sample_order(OrderRule { one_channel: true, ..OrderRule::default() })
            .property(PropertySpec::text("weights", "", weights).changeable())
            .validated(|properties| weights_of(properties).map(drop))
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { weights: weights_of(properties)? })
    }

    fn run(mut self, mut ports: Ports) -> Result<()> {
        let requests = ports.requests();
        let mut input = ports.input::<Iq>("in")?;
        let mut output = ports.output::<Iq>("out")?;
        let mut tracker = StreamTracker::default();
        let mut frames = BeamFrames::default();
        loop {
            let channels = frames.channels;
            let received = input.receive_with(|| {
                requests.apply_changes(|new| {
                    let weights = weights_of(new)?;
                    check_count(&weights, channels)?;
                    self.weights = weights;
                    Ok(())
                });
            })?;
            let Some(packet) = received else { return Ok(()) };
            let continuity = tracker.packet(&packet);
            if continuity == Continuity::NewStream {
                let stream = packet.stream();
                check_count(&self.weights, Some(stream.channels.len().max(1)))?;
                frames = BeamFrames::of(stream)?;
                output.set_stream(described(stream));
            }
            if continuity != Continuity::Next {
                frames.partial.clear();
            }
            let Some(first) = frames.push(&packet) else { continue };
            let stream = packet.stream();
            let frame = stream.frame_samples();
            // The samples of a frame have the same time, and so have the rows of a frame.
            let start = packet.sample_index();
            let since = if frames.turn == 1 { start } else { start / frame * frame };
            let samples = between(since, (u128::from(first)) * u128::from(frame), 1);
            let time_ns = time_after(packet.time_ns(), samples, stream);
            let count = frames.partial.len() / frames.samples();
            let mut sum = output.loan(count * frames.turn)?;
            frames.add(&self.weights, &mut sum);
            let index = first * frames.turn as u64;
            sum.at_sample(index).at_time_ns(time_ns).send()?;
        }
    }
}

/// Returns the weights in the property.
fn weights_of(properties: &Properties) -> Result<Vec<Iq>> {
    let text = properties.text("weights");
    if text.trim().is_empty() {
        return Ok(Vec::new());
    }
    let refused = |problem: String| -> Error {
        let remedy = "separate complex numbers by commas, as `1, 0.7-0.7j`";
        InvalidProperties::new(problem).property("weights").remedy(remedy).into()
    };
    let max = StreamInfo::CHANNELS_MAX;
    let count = text.split(',').count();
    if count > max {
        return Err(refused(format!("`weights` has {count} numbers, at most {max}")));
    }
    let parsed = text.split(',').map(|number| {
        // `num-complex` takes `i` or `j`, and no spaces around the sign.
        let joined: String = number.chars().filter(|c| !c.is_whitespace()).collect();
        let weight =
            joined.parse::<Iq>().ok().filter(|weight| weight.re.is_finite() && weight.im.is_finite());
        weight
            .ok_or_else(|| refused(format!("`weights` has `{}`, which is no complex number", number.trim())))
    });
    parsed.collect()
}

/// Checks that there is a weight for each channel, if the number of channels is set.
fn check_count(weights: &[Iq], channels: Option<usize>) -> Result<()> {
    match channels {
        Some(channels) if !weights.is_empty() && weights.len() != channels => {
            let problem = format!("`weights` has {} numbers, and {channels} channels arrive", weights.len());
            let remedy = "give each channel a weight, or leave `weights` empty";
            Err(InvalidProperties::new(problem).property("weights").remedy(remedy).into())
        }
        _ => Ok(()),
    }
}

/// Returns the description of the sum.
fn described(all: &StreamInfo) -> StreamInfo {
    let count = all.channels.len().max(1) as f64;
    let mut stream = all.clone();
    stream.channels.clear();
    stream.sample_rate_hz = stream.sample_rate_hz.map(|rate| rate / count);
    // The step applies from row to row, or from sample to sample. A frame has all channels.
    if let Some(axis) = stream.axes.get_mut(usize::from(stream.row_length.is_some()))
        && stream.frame_rows.is_none()
    {
        axis.step *= count;
    }
    stream
}

/// The frames of a stream: a turn of each channel.
#[derive(Default)]
struct BeamFrames {
    /// `None`: nothing has arrived.
    channels: Option<usize>,
    /// The number of consecutive samples of a channel.
    turn: usize,
    /// Samples from the start of a frame on: whole frames, then a part of one.
    partial: Vec<Iq>,
    /// Samples of whole frames at the front, which the last call has added.
    added: usize,
}

impl BeamFrames {
    fn of(stream: &StreamInfo) -> Result<Self> {
        let samples = stream.frame_samples();
        if samples > FRAME_SAMPLES_MAX {
            return Err(Error::failed(format!(
                "the stream `{}` has {samples} samples in a frame of all channels, at most {FRAME_SAMPLES_MAX}: \
                 describe shorter rows (`row_length`, `frame_rows`)",
                stream.id
            )));
        }
        let channels = Some(stream.channels.len().max(1));
        Ok(Self { channels, turn: stream.turn_samples() as usize, ..Self::default() })
    }

    /// Returns the number of samples of a frame.
    fn samples(&self) -> usize {
        self.turn.saturating_mul(self.channels.unwrap_or(1))
    }

    /// Adds the samples of a packet. Returns the number of the first whole frame; `None`: no frame
    /// is whole. A frame that begins before a gap, or ends behind one, is left out.
    fn push(&mut self, packet: &Packet<'_, Iq>) -> Option<u64> {
        self.partial.drain(..self.added.min(self.partial.len()));
        self.added = 0;
        let (start, frame) = (packet.sample_index(), self.samples() as u64);
        let begun = self.partial.len() as u64;
        let skipped = if begun > 0 { 0 } else { (frame - start % frame) % frame };
        let skipped = usize::try_from(skipped).unwrap_or(usize::MAX).min(packet.len());
        self.partial.extend_from_slice(&packet[skipped..]);
        (self.partial.len() >= self.samples()).then(|| (start + skipped as u64 - begun) / frame)
    }

    /// Adds the channels of the whole frames.
    fn add(&mut self, weights: &[Iq], sum: &mut [Iq]) {
        let (turn, samples) = (self.turn, self.samples());
        let equal = Iq::new(1.0 / self.channels.unwrap_or(1) as f32, 0.0);
        for (sum, frame) in sum.chunks_exact_mut(turn).zip(self.partial.chunks_exact(samples)) {
            sum.fill(Iq::ZERO);
            for (channel, samples) in frame.chunks_exact(turn).enumerate() {
                let weight = weights.get(channel).copied().unwrap_or(equal);
                for (sum, sample) in sum.iter_mut().zip(samples) {
                    *sum += weight * sample;
                }
            }
        }
        self.added = self.partial.len() / samples * samples;
    }
}

#[cfg(test)]
mod tests {
    use stripline::component::Value;
    use stripline::component::harness::Harness;

    use super::*;

    fn refusal(weights: &str) -> String {
        let given = [("weights".to_owned(), Value::Text(weights.into()))].into();
        let spec = Beamformer::describe();
        let checked = spec.validate(&Properties::new(&spec, given).unwrap());
        checked.err().map_or(String::new(), |found| found.to_string())
    }

    /// Checks the numbers before the start.
    #[test]
    fn weights_are_checked_before_the_start() {
        for taken in ["", " ", "1", "1, 0.7-0.7j", "-1j, 1e-3 + 2i"] {
            assert_eq!(refusal(taken), "", "{taken}");
        }
        for (weights, number) in [("1,", "``"), ("left", "`left`"), ("1, 2k", "`2k`"), ("nan", "`nan`")] {
            assert!(refusal(weights).contains(number), "{weights}: {}", refusal(weights));
        }
        assert!(refusal(&["1"; StreamInfo::CHANNELS_MAX + 1].join(",")).contains("at most"));
    }

    /// Changes the weights between two packets, and refuses another number of them.
    #[test]
    fn weights_change_between_two_packets() {
        let mut run = Harness::of::<Beamformer>().property("weights", "1, 1j").start().unwrap();
        let (mut input, mut output) = (run.input::<Iq>("in").unwrap(), run.output::<Iq>("out").unwrap());
        input.set_stream(StreamInfo::new("s").channels(["a", "b"]));
        let samples = [Iq::new(1.0, 0.0), Iq::new(0.0, 2.0)];
        input.send(&samples).unwrap();
        assert_eq!(*output.receive().unwrap().unwrap(), [Iq::new(-1.0, 0.0)]);
        run.set("weights", "2, -1j").unwrap();
        let error = run.set("weights", "1, 2, 3").unwrap_err().to_string();
        assert!(error.contains("3 numbers, and 2 channels arrive"), "{error}");
        input.send(&samples).unwrap();
        assert_eq!(*output.receive().unwrap().unwrap(), [Iq::new(4.0, 0.0)]);
        run.set("weights", "").unwrap();
        input.send(&samples).unwrap();
        assert_eq!(*output.receive().unwrap().unwrap(), [Iq::new(0.5, 1.0)]);
        input.set_stream(StreamInfo::new("s").channels(["a", "b", "c"]));
        run.set("weights", "1, 1").unwrap();
        input.send(&[Iq::ZERO; 3]).unwrap();
        // The component may have ended already.
        let _ = input.finish();
        drop(output);
        let error = run.finish().unwrap_err().to_string();
        assert!(error.contains("2 numbers, and 3 channels arrive"), "{error}");
    }
}
