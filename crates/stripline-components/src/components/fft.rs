//! `fft`: spectra of a stream.

use num_complex::Complex;
use stripline::component::kit::{Continuity, StreamTracker};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, OrderRule, PortTypes, Ports, Properties, PropertySpec,
};
use stripline::payload::TypeName;
use stripline::{Axis, Error, Output, Packet, Result, Sample, StreamInfo};

use super::property_errors::can_be_made;
use super::stream_order::{between, channels, signal_input};
use super::timing::time_after;
use crate::dsp::{
    self, FFT_AVERAGE_MAX, FFT_SIZE_MAX, Frames, MeanPower, PerChannel, Spectra, SpectrumWindow,
};

/// The component `fft`.
pub struct FftComponent {
    size: usize,
    hop: usize,
    average: usize,
    window: SpectrumWindow,
    is_power: bool,
}

impl Component for FftComponent {
    fn describe() -> ComponentSpec {
        let types = vec![TypeName::of::<Complex<f32>>(), TypeName::of::<f32>()];
        ComponentSpec::new("fft", "Makes spectra: rows of power in dB, or of complex amplitudes.")
            .port(signal_input(PortTypes::OneOf(types), "samples"))
            .sample_order(OrderRule { rows: Some("size".into()), ..OrderRule::default() })
            .output(
                "out",
                PortTypes::Property("output".into()),
                "rows in the order of frequency: `size` bins, or of real samples `size` / 2 + 1",
            )
            .property(PropertySpec::choice(
                "output",
                &["f32", "cf32"],
                "f32",
                "f32: power in dB, 0 for a tone of amplitude 1; cf32: complex amplitudes",
            ))
            .property(
                PropertySpec::integer("size", 1024, 2, FFT_SIZE_MAX as i64, "samples of a spectrum")
                    .unit("samples"),
            )
            .property(
                PropertySpec::float("overlap", 0.0, "part of a spectrum's samples that the next one shares")
                    .range(0.0, 0.99),
            )
            .property(PropertySpec::choice(
                "window",
                &SpectrumWindow::ALL.map(SpectrumWindow::name),
                SpectrumWindow::Hann.name(),
                "weight of the samples, against side lobes",
            ))
            .property(PropertySpec::integer(
                "average",
                1,
                1,
                FFT_AVERAGE_MAX as i64,
                "spectra in a row, as their mean power; f32 only. A rest at the end is left out",
            ))
            .validated(can_be_made::<Self>)
    }

    fn new(properties: &Properties) -> Result<Self> {
        let number = |name| usize::try_from(properties.count(name)).unwrap_or(usize::MAX);
        let (size, average) = (number("size"), number("average"));
        let is_power = properties.text("output") == "f32";
        if !is_power && average != 1 {
            let message = format!("`average` is {average}, but complex amplitudes have no mean power");
            let remedy = "set output = \"f32\", or leave `average` out";
            return Err(InvalidProperties::new(message).property("average").remedy(remedy).into());
        }
        // At least one: an overlap of nearly all samples of a short spectrum rounds to all samples.
        let hop = ((size as f64 * (1.0 - properties.float("overlap"))).round() as usize).clamp(1, size);
        let window = properties.text("window").parse().map_err(Error::failed)?;
        Ok(Self { size, hop, average, window, is_power })
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cf32", TypeName::as_str) {
            "f32" => self.run_as::<f32>(ports),
            _ => self.run_as::<Complex<f32>>(ports),
        }
    }
}

impl FftComponent {
    fn run_as<T: Sample + dsp::Sample>(self, ports: Ports) -> Result<()> {
        if self.is_power {
            let mean = MeanPower::new(self.average);
            self.run_with::<T, f32>(ports, mean)
        } else {
            self.run_with::<T, Complex<f32>>(ports, Amplitudes)
        }
    }

    fn run_with<T: Sample + dsp::Sample, R: Sample>(self, mut ports: Ports, row: impl Row<R>) -> Result<()> {
        let spectra = Spectra::<T>::new(self.size, self.hop, self.window).map_err(Error::failed)?;
        let silent = (spectra, row);
        let mut makers = PerChannel::<_, T>::new(1, silent.clone());
        let mut frames = Frames::new(1);
        let mut input = ports.input::<T>("in")?;
        let mut output = ports.output::<R>("out")?;
        let mut tracker = StreamTracker::default();
        let mut numbers = RowNumbers { step: (self.hop * self.average) as u64, next: 0, skip: 0 };
        while let Some(packet) = input.receive()? {
            let arrival = tracker.packet(&packet);
            if arrival == Continuity::NewStream {
                check_axis(packet.stream())?;
                makers = PerChannel::new(channels(packet.stream()), silent.clone());
                frames = Frames::new(makers.channels());
                output.set_stream(self.stream(packet.stream(), silent.0.bins(), T::COMPONENTS == 2));
            }
            let channels = frames.channels();
            if arrival != Continuity::Next {
                for (spectra, row) in makers.processors() {
                    spectra.reset();
                    row.reset();
                }
                frames.restart();
                numbers.align(packet.sample_index().div_ceil(channels as u64));
            }
            let (_, samples) = frames.push(packet.sample_index(), &packet);
            let mut samples = &samples[numbers.skip(samples.len() / channels) * channels..];
            while !samples.is_empty() {
                // Process at most one spectrum of each channel, so that the rows of the channels
                // are interleaved.
                let count = makers.first().0.missing().saturating_mul(channels).min(samples.len());
                let mut sent = Ok(());
                let mut is_row = false;
                makers.each(&samples[..count], |channel, (spectra, row), samples| {
                    spectra.push(samples, |bins| {
                        if let Some(values) = row.add(bins)
                            && sent.is_ok()
                        {
                            is_row = true;
                            sent = send(values, numbers.row(channel, channels), &packet, &mut output);
                        }
                    });
                });
                sent?;
                numbers.next += u64::from(is_row);
                samples = &samples[count..];
            }
        }
        Ok(())
    }

    fn stream(&self, stream: &StreamInfo, bins: usize, is_complex: bool) -> StreamInfo {
        let channels = stream.channels.len().max(1) as f64;
        let step = (self.hop * self.average) as f64;
        let length = u32::try_from(bins).unwrap_or(u32::MAX);
        // Without a sample rate, frequencies are fractions of the rate, and times are in samples.
        let (rate, hz, s) = match stream.sample_rate_hz {
            Some(rate) => (rate / channels, "Hz", "s"),
            None => (1.0, "", "samples"),
        };
        let bin = rate / self.size as f64;
        let first = if is_complex { -((self.size / 2) as f64) * bin } else { 0.0 };
        StreamInfo {
            sample_rate_hz: stream.sample_rate_hz.map(|rate| rate / step * bins as f64),
            ..stream.clone()
        }
        // Each channel has the same number of rows, and the rows of the channels are
        // interleaved.
        .rows(length, Axis::new(first, bin, hz), Axis::new(0.0, step / rate / channels, s))
        .keyword("window", self.window.name())
    }
}

/// Refuses samples over an axis other than time.
fn check_axis(stream: &StreamInfo) -> Result<()> {
    let Some(Axis { unit, .. }) = stream.axes.iter().find(|axis| !matches!(&*axis.unit, "s" | "")) else {
        return Ok(());
    };
    let id = &stream.id;
    Err(Error::failed(format!(
        "the stream `{id}` has samples over an axis in `{unit}` (`axes`), and spectra are made of samples over time: \
         leave the axis out at its source"
    )))
}

/// A maker of rows from spectra.
trait Row<R>: Clone {
    /// Adds a spectrum. Returns a row if the spectrum completes it.
    fn add<'a>(&'a mut self, bins: &'a [Complex<f32>]) -> Option<&'a [R]>;

    /// Drops the spectra added so far.
    fn reset(&mut self);
}

impl Row<f32> for MeanPower {
    fn add<'a>(&'a mut self, bins: &'a [Complex<f32>]) -> Option<&'a [f32]> {
        MeanPower::add(self, bins)
    }

    fn reset(&mut self) {
        MeanPower::reset(self);
    }
}

/// Rows that are the spectra themselves.
#[derive(Clone)]
struct Amplitudes;

impl Row<Complex<f32>> for Amplitudes {
    fn add<'a>(&'a mut self, bins: &'a [Complex<f32>]) -> Option<&'a [Complex<f32>]> {
        Some(bins)
    }

    fn reset(&mut self) {}
}

/// The numbers of a channel's rows: row `n` begins with sample `n * step` of the channel, also
/// after a gap.
struct RowNumbers {
    step: u64,
    /// The number of the next row.
    next: u64,
    /// The number of samples to skip before the next row begins.
    skip: u64,
}

impl RowNumbers {
    /// Starts again at this sample.
    fn align(&mut self, sample: u64) {
        self.next = sample.div_ceil(self.step);
        self.skip = self.next.saturating_mul(self.step) - sample;
    }

    /// Returns how many of the next samples to skip.
    fn skip(&mut self, samples: usize) -> usize {
        let now = usize::try_from(self.skip).unwrap_or(usize::MAX).min(samples);
        self.skip -= now as u64;
        now
    }

    /// Returns the next row of a channel: the number among the rows of all channels, and the index
    /// of the first sample.
    fn row(&self, channel: usize, channels: usize) -> (u64, u64) {
        let channels = channels as u64;
        let number = self.next.saturating_mul(channels).saturating_add(channel as u64);
        (number, self.next.saturating_mul(self.step).saturating_mul(channels))
    }
}

/// Sends a row that ends in this packet.
fn send<T: Sample, R: Sample>(
    values: &[R],
    (row, begin): (u64, u64),
    packet: &Packet<'_, T>,
    output: &mut Output<R>,
) -> Result<()> {
    let mut out = output.loan(values.len())?;
    out.copy_from_slice(values);
    let after = between(packet.sample_index(), begin.into(), 1);
    let time_ns = time_after(packet.time_ns(), after, packet.stream());
    out.at_sample(row.saturating_mul(values.len() as u64)).at_time_ns(time_ns).send()
}

#[cfg(test)]
mod tests {
    use stripline::component::Value;

    use super::*;

    fn fft(values: &[(&str, Value)]) -> Result<FftComponent> {
        let values = values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        FftComponent::new(&Properties::new(&FftComponent::describe(), values).unwrap())
    }

    #[test]
    fn rows_are_described_with_their_axes() {
        let fft = fft(&[
            ("size", Value::Integer(64)),
            ("overlap", Value::Float(0.5)),
            ("average", Value::Integer(10)),
        ])
        .unwrap();
        let stream =
            StreamInfo::new("iq").sample_rate_hz(128e3).center_frequency_hz(1e8).channels(["a", "b"]);
        let rows = fft.stream(&stream, 64, true);
        assert_eq!(rows.check(), Ok(()));
        assert_eq!(
            (rows.row_length, rows.center_frequency_hz, rows.channels.len()),
            (Some(64), Some(1e8), 2)
        );
        assert_eq!(rows.axes, [Axis::new(-32e3, 1e3, "Hz"), Axis::new(0.0, 0.0025, "s")]);
        // 200 rows per second of each channel.
        assert_eq!(rows.sample_rate_hz, Some(25_600.0));
        let real = fft.stream(&StreamInfo::new("audio"), 33, false);
        assert_eq!(real.axes, [Axis::new(0.0, 1.0 / 64.0, ""), Axis::new(0.0, 320.0, "samples")]);
        assert_eq!(real.check(), Ok(()));
    }

    #[test]
    fn complex_amplitudes_have_no_mean() {
        let refused = fft(&[("output", Value::Text("cf32".into())), ("average", Value::Integer(2))]);
        assert!(refused.err().is_some_and(|error| error.to_string().contains("mean power")));
        assert!(
            fft(&[("overlap", Value::Float(0.99)), ("size", Value::Integer(2))])
                .is_ok_and(|fft| fft.hop == 1)
        );
    }

    #[test]
    fn rows_begin_at_multiples_of_their_step() {
        let mut numbers = RowNumbers { step: 10, next: 0, skip: 0 };
        for (sample, row, skip) in [(0, 0, 0), (1, 1, 9), (10, 1, 0), (25, 3, 5)] {
            numbers.align(sample);
            assert_eq!((numbers.next, numbers.skip), (row, skip));
        }
        assert_eq!((numbers.skip(3), numbers.skip(9), numbers.skip(9)), (3, 2, 0));
        assert_eq!((numbers.row(0, 1), numbers.row(1, 2)), ((3, 30), (7, 60)));
    }
}
