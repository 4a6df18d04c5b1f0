//! `fir-filter` and `decimator`.

use std::sync::Arc;
use std::time::Duration;

use num_complex::Complex;
use stripline::component::kit::{Continuity, StreamTracker, sample_rate, sample_rate_property};
use stripline::component::{
    Component, ComponentSpec, InvalidProperties, PortTypes, Ports, Properties, PropertySpec, RateRule,
    Request, TestResult, Value,
};
use stripline::payload::TypeName;
use stripline::{Error, Result, Sample, StreamInfo};

use super::property_errors::{can_be_made, setting};
use super::stream_order::{at_ratio, between, channels, signal_input};
use super::timing::{time_after, time_before};
use crate::dsp::{
    self, DECIMATION_MAX, DecimatingFir, FirFilter, FirLength, Frames, PerChannel, Taps, Window,
};

/// The component `fir-filter`.
pub struct FirFilterComponent {
    low: f64,
    high: f64,
    shape: FilterShape,
}

impl Component for FirFilterComponent {
    fn describe() -> ComponentSpec {
        let spec = ComponentSpec::new("fir-filter", "Passes a band of frequencies: low-pass or band-pass.")
            .port(signal_input(PortTypes::OneOf(sample_types()), "samples"))
            .output("out", PortTypes::SameAs("in".into()), "the filtered samples, one for each")
            .property(
                PropertySpec::float("low", 0.0, "lower edge of the band (-6 dB); 0: a low-pass filter")
                    .range(0.0, 1e12)
                    .unit("Hz")
                    .changeable(),
            )
            .property(
                PropertySpec::float("high", 0.0, "upper edge of the band (-6 dB)")
                    .range(0.0, 1e12)
                    .unit("Hz")
                    .required()
                    .example(Value::Float(4e3))
                    .changeable(),
            )
            .validated(can_be_made::<Self>)
            .sample_rate(RateRule::property("sample_rate").or_input("in").needed())
            .test("passband", "the gain in the middle of the band, in dB, is 0")
            .test(
                "stopband",
                "the largest gain outside of the band, in dB, is as low as the window makes it",
            );
        FilterShape::describe(spec, "a quarter of the band")
    }

    fn new(properties: &Properties) -> Result<Self> {
        let mut shape = FilterShape::new(properties);
        let (low, high) = (properties.float("low"), properties.float("high"));
        if low >= high {
            let invalid =
                InvalidProperties::new(format!("`high` is {high} Hz; it must be above `low`, {low} Hz"));
            let remedy = match low {
                0.0 => "set `high` to where the band ends, as in high = 4e3",
                _ => "raise `high`, or lower `low`",
            };
            return Err(invalid.property("high").remedy(remedy).into());
        }
        if shape.transition == 0.0 {
            shape.transition = (high - low) / 4.0;
        }
        let filter = Self { low, high, shape };
        if filter.shape.sample_rate > 0.0 {
            filter.design(filter.shape.sample_rate)?;
        }
        Ok(filter)
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cf32", TypeName::as_str) {
            "f32" => self.run_as::<f32>(ports),
            _ => self.run_as::<Complex<f32>>(ports),
        }
    }
}

impl FirFilterComponent {
    /// Measures the filter with an impulse, through the same code that filters samples.
    fn tested(&self, test: &str, rate: f64) -> Result<TestResult> {
        let taps = self.design(rate)?;
        let mut impulse = vec![0.0; taps.len()];
        impulse[0] = 1.0;
        let mut response = vec![0.0; taps.len()];
        FirFilter::<f32>::new(&taps).filter(&impulse, &mut response);
        let measured = Taps::new(response).map_err(Error::failed)?;
        let gain_db = |frequency: f64| {
            let gain = 20.0 * measured.response(frequency, rate).norm().max(1e-12).log10();
            // Round to hundredths. Adding 0 turns -0 into 0.
            (100.0 * gain).round() / 100.0 + 0.0
        };
        if test == "passband" {
            let middle = if self.low == 0.0 { 0.0 } else { (self.low + self.high) / 2.0 };
            let gain = gain_db(middle);
            let text = format!("{gain} dB at {middle} Hz");
            let result = if gain.abs() < 0.5 { TestResult::pass(text) } else { TestResult::fail(text) };
            return Ok(result.value(gain));
        }
        // Beyond the slopes on either side of the band.
        let below = (self.low > 0.0).then_some((0.0, self.low - self.shape.transition));
        let bands = [below, Some((self.high + self.shape.transition, rate / 2.0))];
        let bands = bands.into_iter().flatten().filter(|(from, to)| from < to);
        let points =
            bands.flat_map(|(from, to)| (0..=200).map(move |n| from + (to - from) * f64::from(n) / 200.0));
        let worst = points.map(|at| (gain_db(at), at)).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((gain, at)) = worst else {
            return Ok(TestResult::pass("nothing lies outside of the band and its slopes"));
        };
        // The attenuation of the window, minus 3 dB for the rounding of short filters.
        let expected = 3.0
            - match self.shape.window {
                Window::Blackman => 74.0,
                Window::Kaiser { attenuation_db } => attenuation_db,
                _ => 53.0,
            };
        let text = format!("{gain} dB at {at:.0} Hz; at most {expected:.0} is expected");
        let result = if gain <= expected { TestResult::pass(text) } else { TestResult::fail(text) };
        Ok(result.value(gain))
    }

    fn design(&self, rate: f64) -> Result<Taps> {
        let length = FirLength::TransitionHz(self.shape.transition);
        let window = self.shape.window;
        if self.high >= rate / 2.0 {
            let (high, half) = (self.high, rate / 2.0);
            let message =
                format!("`high` is {high} Hz; at {rate} samples/s it must be below half of that, {half} Hz");
            let remedy = match self.shape.sample_rate {
                0.0 => "lower it, or raise the sample rate of the source",
                _ => "lower it, or correct `sample_rate`",
            };
            return Err(InvalidProperties::new(message).property("high").remedy(remedy).into());
        }
        if self.low == 0.0 {
            Taps::low_pass(rate, self.high, length, window)
        } else {
            Taps::band_pass(rate, self.low, self.high, length, window)
        }
        .map_err(setting)
    }

    /// Handles a request. `filters` has the filters and the rate of a channel after the first
    /// packet.
    fn apply_changes<T: dsp::Sample>(&mut self, request: Request, filters: &mut Option<ActiveFilters<T>>) {
        match request {
            Request::Change(change) => change.apply(|properties| {
                let changed = Self::new(properties)?;
                if let Some(ActiveFilters { filters, rate, delay }) = filters {
                    let taps = changed.design(*rate)?;
                    *delay = delay_of(&taps, *rate);
                    filters.processors().iter_mut().for_each(|filter| filter.set_taps(&taps));
                }
                *self = changed;
                Ok(())
            }),
            Request::Test(test) => {
                let rate = filters.as_ref().map_or(self.shape.sample_rate, |active| active.rate);
                let result = self.tested(test.name(), rate);
                test.answer(result.unwrap_or_else(TestResult::fail));
            }
        }
    }

    fn run_as<T: Sample + dsp::Sample>(mut self, mut ports: Ports) -> Result<()> {
        let live = ports.requests();
        let mut input = ports.input::<T>("in")?;
        let mut output = ports.output::<T>("out")?;
        let mut tracker = StreamTracker::default();
        // The first packet starts a stream and creates the filters.
        let mut filters = None;
        let mut has_own_rate = false;
        while let Some(packet) = input.receive_with(|| {
            // Without a rate, the values cannot be checked: changes wait for the first packet.
            while (filters.is_some() || self.shape.sample_rate > 0.0)
                && let Some(request) = live.request()
            {
                self.apply_changes(request, &mut filters);
            }
        })? {
            let arrival = tracker.packet(&packet);
            let ActiveFilters { filters, delay, .. } = match &mut filters {
                Some(filters) if arrival != Continuity::NewStream => filters,
                unset => {
                    let channels = channels(packet.stream());
                    let rate = sample_rate(self.shape.sample_rate, packet.stream())? / channels as f64;
                    let taps = self.design(rate)?;
                    let filter = FirFilter::<T>::new(&taps);
                    let given = Some(self.shape.sample_rate).filter(|rate| *rate > 0.0);
                    has_own_rate = given.is_some() && given != packet.stream().sample_rate_hz;
                    if has_own_rate {
                        let stream = StreamInfo::clone(packet.stream());
                        output.set_stream(StreamInfo { sample_rate_hz: given, ..stream });
                    }
                    let delay = delay_of(&taps, rate);
                    unset.insert(ActiveFilters { filters: PerChannel::new(channels, filter), rate, delay })
                }
            };
            if arrival == Continuity::AfterGap {
                filters.processors().iter_mut().for_each(FirFilter::reset);
            }
            let mut out = output.loan(packet.len())?;
            let first = filters.channel_at(packet.sample_index());
            filters.run(first, &packet, &mut out, FirFilter::filter);
            match has_own_rate {
                true => out
                    .at_sample(packet.sample_index())
                    .at_time_ns(time_before(packet.time_ns(), *delay))
                    .send()?,
                false => out.send_like_delayed(&packet, *delay)?,
            }
        }
        Ok(())
    }
}

/// The filters of a stream.
struct ActiveFilters<T: dsp::Sample> {
    filters: PerChannel<FirFilter<T>, T>,
    /// The rate of a channel.
    rate: f64,
    /// The time from the centre of the filter to its newest sample.
    delay: Duration,
}

fn delay_of(taps: &Taps, rate: f64) -> Duration {
    Duration::try_from_secs_f64(taps.delay_samples() / rate).unwrap_or(Duration::MAX)
}

/// The component `decimator`.
pub struct Decimator {
    factor: usize,
    cutoff: f64,
    shape: FilterShape,
}

impl Component for Decimator {
    fn describe() -> ComponentSpec {
        let factor_max = DECIMATION_MAX as i64;
        let spec = ComponentSpec::new(
            "decimator",
            "Divides the sample rate, after a low-pass filter that removes the frequencies that the lower rate cannot carry.",
        )
        .port(signal_input(PortTypes::OneOf(sample_types()), "samples"))
        .output("out", PortTypes::SameAs("in".into()), "samples at the lower rate")
        .property(PropertySpec::integer("factor", 2, 1, factor_max, "how much lower the rate gets"))
        .property(
            PropertySpec::float("cutoff", 0.0, "where the filter is at -6 dB; 0: 0.4 of the lower rate")
                .range(0.0, 1e12)
                .unit("Hz")
                .changeable(),
        )
        .validated(can_be_made::<Self>)
        .sample_rate(RateRule::property("sample_rate").or_input("in").divided_by("factor"));
        FilterShape::describe(spec, "such that it ends at half the lower rate")
    }

    fn new(properties: &Properties) -> Result<Self> {
        let factor = usize::try_from(properties.count("factor")).unwrap_or(DECIMATION_MAX);
        let decimator =
            Self { factor, cutoff: properties.float("cutoff"), shape: FilterShape::new(properties) };
        if decimator.shape.sample_rate > 0.0 {
            decimator.design(decimator.shape.sample_rate)?;
        }
        Ok(decimator)
    }

    fn run(self, ports: Ports) -> Result<()> {
        match ports.payload("in").map_or("cf32", TypeName::as_str) {
            "f32" => self.run_as::<f32>(ports),
            _ => self.run_as::<Complex<f32>>(ports),
        }
    }
}

impl Decimator {
    /// Returns the rate of a channel for the design. If no property is in Hz, the filter is the
    /// same at every rate.
    fn rate(&self, stream: &StreamInfo) -> Result<f64> {
        let is_relative = self.cutoff == 0.0 && self.shape.transition == 0.0;
        match sample_rate(self.shape.sample_rate, stream) {
            Err(_) if is_relative => Ok(1.0),
            rate => Ok(rate? / channels(stream) as f64),
        }
    }

    fn design(&self, rate: f64) -> Result<Taps> {
        let lower = rate / self.factor as f64;
        let cutoff = if self.cutoff > 0.0 { self.cutoff } else { 0.4 * lower };
        if cutoff >= 0.5 * lower {
            let message =
                format!("`cutoff` is {cutoff} Hz; it must be below half the lower rate, {} Hz", 0.5 * lower);
            return Err(InvalidProperties::new(message)
                .property("cutoff")
                .remedy("lower it, or `factor`")
                .into());
        }
        let transition =
            if self.shape.transition > 0.0 { self.shape.transition } else { 2.0 * (0.5 * lower - cutoff) };
        Taps::low_pass(rate, cutoff, FirLength::TransitionHz(transition), self.shape.window).map_err(setting)
    }

    fn run_as<T: Sample + dsp::Sample>(mut self, mut ports: Ports) -> Result<()> {
        let live = ports.requests();
        let mut input = ports.input::<T>("in")?;
        let mut output = ports.output::<T>("out")?;
        let mut tracker = StreamTracker::default();
        // The first packet starts a stream and creates the filters.
        let mut filters = None::<(PerChannel<DecimatingFir<T>, T>, Arc<StreamInfo>)>;
        // The delay of the filter, in samples of a channel.
        let mut delay = 0.0;
        let mut thinner = Downsampler::new(self.factor as u64);
        let mut frames = Frames::new(1);
        while let Some(packet) = input.receive_with(|| {
            // Without a rate, the values cannot be checked: changes wait for the first packet.
            if filters.is_none() && self.shape.sample_rate == 0.0 {
                return;
            }
            live.apply_changes(|new| {
                let changed = Self::new(new)?;
                if let Some((filters, stream)) = &mut filters {
                    let taps = changed.design(changed.rate(stream)?)?;
                    delay = taps.delay_samples();
                    filters.processors().iter_mut().for_each(|filter| filter.set_taps(&taps));
                }
                self = changed;
                Ok(())
            });
        })? {
            let arrival = tracker.packet(&packet);
            let (filters, stream) = match &mut filters {
                Some(filters) if arrival != Continuity::NewStream => filters,
                unset => {
                    frames = Frames::new(channels(packet.stream()));
                    output.set_stream(self.stream(packet.stream()));
                    let rate = self.rate(packet.stream())?;
                    let taps = self.design(rate)?;
                    delay = taps.delay_samples();
                    let filter = DecimatingFir::new(&taps, self.factor).map_err(Error::failed)?;
                    let filters = PerChannel::new(frames.channels(), filter);
                    unset.insert((filters, Arc::clone(packet.stream())))
                }
            };
            let channels = filters.channels();
            if arrival != Continuity::Next {
                filters.processors().iter_mut().for_each(DecimatingFir::reset);
                frames.restart();
                thinner.align(packet.sample_index().div_ceil(channels as u64));
            }
            let (index, samples) = frames.push(packet.sample_index(), &packet);
            let skipped = thinner.skip(samples.len() / channels);
            let samples = &samples[skipped * channels..];
            let count = filters.first().outputs_for(samples.len() / channels);
            let first = thinner.first(index / channels as u64);
            if count == 0 {
                // There is no output, but the filters need the samples.
                filters.run(0, samples, &mut [], DecimatingFir::filter);
                continue;
            }
            let mut out = output.loan(count * channels)?;
            filters.run(0, samples, &mut out, DecimatingFir::filter);
            let first = first.saturating_mul(channels as u64);
            let after = between(packet.sample_index(), u128::from(first) * self.factor as u128, 1);
            let time_ns = time_after(packet.time_ns(), after - delay * channels as f64, stream);
            out.at_sample(first).at_time_ns(time_ns).send()?;
        }
        Ok(())
    }

    fn stream(&self, stream: &StreamInfo) -> StreamInfo {
        let sample_rate = Some(self.shape.sample_rate).filter(|rate| *rate > 0.0).or(stream.sample_rate_hz);
        at_ratio(&StreamInfo { sample_rate_hz: sample_rate, ..stream.clone() }, 1, self.factor)
    }
}

/// The choice of samples that a decimator keeps: multiples of the factor, also after a gap.
struct Downsampler {
    factor: u64,
    /// The number of samples to skip before the filter starts.
    skip: u64,
}

impl Downsampler {
    fn new(factor: u64) -> Self {
        Self { factor, skip: 0 }
    }

    /// Restarts the filter at the first sample to keep that is at or after `sample`.
    fn align(&mut self, sample: u64) {
        self.skip = (self.factor - sample % self.factor) % self.factor;
    }

    /// Returns how many of the next samples to skip.
    fn skip(&mut self, samples: usize) -> usize {
        let now = usize::try_from(self.skip).unwrap_or(usize::MAX).min(samples);
        self.skip -= now as u64;
        now
    }

    /// Returns the index, at the lower rate, of the first kept sample at or after `sample`.
    fn first(&self, sample: u64) -> u64 {
        sample.div_ceil(self.factor)
    }
}

/// The properties that all filters share.
struct FilterShape {
    sample_rate: f64,
    transition: f64,
    window: Window,
}

impl FilterShape {
    fn describe(spec: ComponentSpec, transition: &str) -> ComponentSpec {
        spec.property(
            PropertySpec::float("transition", 0.0, &format!("width of the filter's slope; 0: {transition}"))
                .range(0.0, 1e12)
                .unit("Hz")
                .changeable(),
        )
        .property(
            PropertySpec::choice(
                "window",
                &["hamming", "blackman", "kaiser"],
                "hamming",
                "stop band: hamming 53 dB down, blackman 74 dB, kaiser by `attenuation`",
            )
            .changeable(),
        )
        .property(
            PropertySpec::float("attenuation", 60.0, "how far down the stop band is; kaiser only")
                .range(21.0, 150.0)
                .unit("dB")
                .changeable(),
        )
        .property(sample_rate_property())
    }

    fn new(properties: &Properties) -> Self {
        let window = match properties.text("window") {
            "blackman" => Window::Blackman,
            "kaiser" => Window::Kaiser { attenuation_db: properties.float("attenuation") },
            _ => Window::Hamming,
        };
        Self {
            sample_rate: properties.float("sample_rate"),
            transition: properties.float("transition"),
            window,
        }
    }
}

fn sample_types() -> Vec<TypeName> {
    vec![TypeName::of::<Complex<f32>>(), TypeName::of::<f32>()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn properties<C: Component>(values: &[(&str, f64)]) -> Properties {
        let value =
            |name: &str, x: f64| if name == "factor" { Value::Integer(x as i64) } else { Value::Float(x) };
        let values = values.iter().map(|(name, x)| ((*name).to_owned(), value(name, *x))).collect();
        Properties::new(&C::describe(), values).unwrap()
    }

    fn refusal<C: Component>(values: &[(&str, f64)]) -> String {
        C::new(&properties::<C>(values)).err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn a_filter_that_cannot_be_is_refused_before_it_runs() {
        assert!(refusal::<FirFilterComponent>(&[("low", 5e3), ("high", 4e3)]).contains("above `low`"));
        assert!(
            refusal::<FirFilterComponent>(&[("high", 40e3), ("sample_rate", 48e3)]).contains("`sample_rate`")
        );
        // The error names the property, also if only the stream has the rate.
        let filter = FirFilterComponent::new(&properties::<FirFilterComponent>(&[("high", 30e3)])).unwrap();
        let error = filter.tested("passband", 48e3).unwrap_err().to_string();
        let expected = "`high` is 30000 Hz; at 48000 samples/s it must be below half of that, 24000 Hz";
        assert!(error.contains(expected) && !error.contains("cutoff"), "{error}");
        assert_eq!(refusal::<FirFilterComponent>(&[("high", 4e3), ("sample_rate", 48e3)]), "");
        let high = [("factor", 5.0), ("cutoff", 30e3), ("sample_rate", 240e3)];
        assert!(refusal::<Decimator>(&high).contains("half the lower rate, 24000 Hz"));
        assert_eq!(refusal::<Decimator>(&[("factor", 65_536.0)]), "");
    }

    #[test]
    fn self_tests_measure_the_filter() {
        for (low, high, rate) in [(0.0, 4e3, 48e3), (2e3, 4e3, 48e3), (0.0, 100e3, 960e3), (0.0, 23e3, 48e3)]
        {
            let filter =
                FirFilterComponent::new(&properties::<FirFilterComponent>(&[("low", low), ("high", high)]))
                    .unwrap();
            for test in ["passband", "stopband"] {
                let result = filter.tested(test, rate).unwrap();
                assert!(result.passed, "{low} to {high} at {rate}: {result:?}");
            }
        }
        // A slope that is too steep is reported as an error, not as a failed test.
        let steep = properties::<FirFilterComponent>(&[("high", 4e3), ("transition", 1e-3)]);
        assert!(FirFilterComponent::new(&steep).unwrap().tested("passband", 48e3).is_err());
    }

    #[test]
    fn a_decimator_without_frequencies_needs_no_rate() {
        let relative = Decimator::new(&properties::<Decimator>(&[])).unwrap();
        assert_eq!(relative.rate(&StreamInfo::new("x")).unwrap(), 1.0);
        let absolute = Decimator::new(&properties::<Decimator>(&[("cutoff", 1e3)])).unwrap();
        assert!(absolute.rate(&StreamInfo::new("x")).unwrap_err().to_string().contains("`sample_rate`"));
        let stream = StreamInfo::new("x").sample_rate_hz(96e3);
        assert_eq!(absolute.rate(&stream).unwrap(), 96e3);
        assert_eq!(absolute.stream(&stream).sample_rate_hz, Some(48e3));
    }

    #[test]
    fn kept_samples_are_multiples_of_the_factor_wherever_packets_start() {
        for factor in 1..7 {
            for start in 0..20 {
                let mut thinner = Downsampler::new(factor);
                thinner.align(start);
                let first = thinner.first(start) * factor;
                assert!(first >= start && first < start + factor);
                let mut skipped = 0;
                for packet in [1, 2, 9] {
                    skipped += thinner.skip(packet) as u64;
                }
                assert_eq!(start + skipped, first);
            }
        }
    }
}
