//! The check of properties against the sample rates of the arriving streams.

use stripline::component::{ComponentSpec, Properties, RateRule, Value};

use super::catalog::Catalog;
use super::components::{CheckedComponent, CheckedProperties};
use super::connections::ResolvedConnection;
use super::diagnostics::{Code, Diagnostic, Diagnostics};

/// The components and their connections, with the rates that follow from the file.
struct Rates<'c> {
    links: &'c [ResolvedConnection],
    components: &'c [CheckedComponent<'c>],
    /// The number of channels that arrive at each component; `None` if it is unknown.
    channels: &'c [Option<usize>],
    /// The rate at which each component works.
    rates: Vec<Option<f64>>,
}

/// Lets every component that takes the rate from an input check its properties again, with the rate
/// of each channel that arrives there. `channels` has the number of channels that arrive at each
/// component; `None` if it is unknown.
pub(super) fn check(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    channels: &[Option<usize>],
    catalog: &Catalog,
    found: &mut Diagnostics,
) {
    let mut all = Rates { links, components, channels, rates: Vec::new() };
    all.rates = carried_on(components.len(), |index, rates| all.rate(index, rates));
    all.check_inputs(found);
    all.check_needed(found);
    all.check_only(found);
    all.check_properties(catalog, found);
}

impl Rates<'_> {
    /// Reports components that take only one rate but have inputs of different rates.
    fn check_inputs(&self, found: &mut Diagnostics) {
        for (index, component) in self.components.iter().enumerate() {
            let Some((spec, properties)) = checked(component) else { continue };
            if !takes_one_rate(spec, properties) {
                continue;
            }
            let mut arriving =
                inputs(index, self.links).filter_map(|link| Some((link, self.sent(link, &self.rates)?)));
            let Some((_, first)) = arriving.next() else { continue };
            if let Some((link, other)) = arriving.find(|(_, rate)| *rate != first) {
                let name = &component.name.value;
                let message =
                    format!("`{name}` takes streams of one rate, but {first} and {other} samples/s arrive");
                let remedy = "put a `resampler` before one of its inputs, or change the rate at its source";
                found.error(Code::RateMismatch, link.draft.place("to"), message, remedy);
            }
        }
    }

    /// Reports components that need a sample rate but follow a source without a sample rate.
    fn check_needed(&self, found: &mut Diagnostics) {
        for (index, component) in self.components.iter().enumerate() {
            let Some((spec, _)) = checked(component) else { continue };
            let rule = spec.rate.as_ref().filter(|rule| rule.needed && self.rates[index].is_none());
            let Some(property) = rule.and_then(|rule| rule.property.as_deref()) else { continue };
            let Some(source) = self.without_rate(index, self.components.len()) else { continue };
            let (name, source) = (&component.name.value, &self.components[source].name);
            let message =
                format!("`{name}` needs a sample rate, and the samples of `{}` have none", source.value);
            let remedy = format!("set `{property}` of `{}`, or of `{name}`", source.value);
            let error = Diagnostic::error(Code::NoRate, &component.name.place, message).help(remedy);
            found.push(error.also(&source.place, "without a sample rate"));
        }
    }

    /// Reports components that take only a particular rate but follow a source with another rate.
    fn check_only(&self, found: &mut Diagnostics) {
        for (index, component) in self.components.iter().enumerate() {
            let Some((spec, _)) = checked(component) else { continue };
            let only = spec.rate.as_ref().and_then(|rule| rule.only);
            let (Some(only), Some(all)) = (only, self.rates[index]) else { continue };
            // More than one channel at this component is reported as another mistake.
            let rate = all / self.channels[index].unwrap_or(1) as f64;
            let Some(link) = inputs(index, self.links).next().filter(|_| rate != only as f64) else {
                continue;
            };
            let name = &component.name.value;
            let message = format!("`{name}` takes {only} samples/s only, and {rate} samples/s arrive");
            let remedy = "put a `resampler` before it, or correct the rate at its source";
            found.error(Code::RateMismatch, link.draft.place("to"), message, remedy);
        }
    }

    /// Reports properties that do not fit the rate of the arriving stream.
    fn check_properties(&self, catalog: &Catalog, found: &mut Diagnostics) {
        for (index, component) in self.components.iter().enumerate() {
            let unrefused = checked(component).filter(|(_, properties)| properties.refused.is_none());
            let Some((spec, properties)) = unrefused else { continue };
            let Some(property) = spec.rate.as_ref().and_then(|rule| rule.property.as_deref()) else {
                continue;
            };
            let channels = self.channels[index].unwrap_or(1);
            let is_checked = is_set(&properties.values, property) && channels == 1;
            let Some(rate) = self.rates[index].filter(|_| !is_checked) else { continue };
            // Each channel is processed at the rate of one channel.
            let rate = rate / channels as f64;
            let Some(values) = properties.with(spec, property, Value::Float(rate)) else { continue };
            let invalid = match component.executable.as_ref().filter(|_| spec.validates) {
                None => spec.validate(&values).err(),
                Some(path) => (catalog.ask_validity)(path, &spec.name, &values).ok().flatten(),
            };
            let Some(invalid) = invalid else { continue };
            let place = invalid.property.as_deref().and_then(|name| properties.places.get(name));
            let message = format!("`{}`: {}", component.name.value, invalid.message);
            let error =
                Diagnostic::error(Code::PropertiesUnfit, place.unwrap_or(&component.name.place), message);
            let each = if channels == 1 { "" } else { " of each channel" };
            let help =
                format!("{rate} samples/s{each} arrive: change that rate at its source, or the property");
            found.push(error.help(help));
        }
    }

    /// Returns the component, at most `far` connections before this one, that sends samples without
    /// a rate; `None` if there may be a rate.
    fn without_rate(&self, index: usize, far: usize) -> Option<usize> {
        let (spec, _) =
            checked(&self.components[index]).filter(|(_, properties)| properties.refused.is_none())?;
        let rule = spec.rate.as_ref().filter(|_| self.rates[index].is_none() && far > 0)?;
        if rule.or_none {
            return Some(index);
        }
        if rule.input.is_none() && !rule.inputs {
            return None;
        }
        let port = |link: &&ResolvedConnection| {
            let input = link.to.and_then(|to| spec.ports.get(to.port)).map(|port| &port.name);
            rule.inputs || input == rule.input.as_ref()
        };
        let mut senders = inputs(index, self.links).filter(port).filter_map(|link| link.from);
        senders.find_map(|from| self.without_rate(from.component, far - 1))
    }

    /// Returns the rate at which a component works, as far as it follows from the file and from the
    /// rates already found.
    fn rate(&self, index: usize, rates: &[Option<f64>]) -> Option<f64> {
        let (spec, properties) = checked(&self.components[index])?;
        let rule = spec.rate.as_ref();
        let property = rule.and_then(|rule| rule.property.as_deref());
        if let Some(name) = property.filter(|name| is_set(&properties.values, name)) {
            return number(&properties.values, name);
        }
        if properties.facts.sample_rate_hz.is_some() {
            return properties.facts.sample_rate_hz;
        }
        let rule = rule?;
        if rule.inputs {
            let mut arriving = inputs(index, self.links).filter_map(|link| self.sent(link, rates));
            let first = arriving.next()?;
            return arriving.all(|rate| rate == first).then_some(first);
        }
        let input = rule.input.as_deref()?;
        let port = spec.ports.iter().position(|port| port.name == input)?;
        let link = inputs(index, self.links).find(|link| link.to.is_some_and(|to| to.port == port))?;
        // The rate of the sent stream may differ from the rate at which the sender works.
        self.sent(link, rates)
    }

    /// Returns the rate of the samples on a connection.
    fn sent(&self, link: &ResolvedConnection, rates: &[Option<f64>]) -> Option<f64> {
        let from = link.from?.component;
        let (spec, properties) = checked(&self.components[from])?;
        let rate = rates[from]?;
        let Some(rule) = &spec.rate else { return Some(rate) };
        let factor = |name: Option<&str>| name.map_or(Some(1.0), |name| number(&properties.values, name));
        let (multiplier, divisor) = (factor(rule.multiplier.as_deref())?, factor(rule.divisor.as_deref())?);
        let streams = match is_interleaved(rule, &properties.values) {
            true => inputs(from, self.links).count(),
            false => 1,
        };
        let channels = match spec.order.one_channel && rule.input.is_some() {
            true => self.channels[from]?,
            false => 1,
        };
        Some(rate * streams as f64 * multiplier / divisor / channels as f64)
    }
}

/// Returns whether the streams at all inputs must have the same rate and the same order.
pub(super) fn takes_one_rate(spec: &ComponentSpec, properties: &CheckedProperties) -> bool {
    let takes_one = |rule: &RateRule| {
        rule.inputs && (rule.interleaves.is_none() || is_interleaved(rule, &properties.values))
    };
    spec.rate.as_ref().is_some_and(takes_one)
}

/// Returns a fact about each of `count` components, as far as it follows from facts about the
/// preceding components. `fact` gets the index of a component and all facts already found.
pub(super) fn carried_on<T: Clone>(
    count: usize,
    fact: impl Fn(usize, &[Option<T>]) -> Option<T>,
) -> Vec<Option<T>> {
    let mut facts = vec![None; count];
    // Each pass carries the facts one connection further.
    for _ in 0..count {
        for index in 0..count {
            if facts[index].is_none() {
                facts[index] = fact(index, &facts);
            }
        }
    }
    facts
}

/// Returns the connections to a component.
pub(super) fn inputs(
    index: usize,
    links: &[ResolvedConnection],
) -> impl Iterator<Item = &ResolvedConnection> {
    links.iter().filter(move |link| link.to.is_some_and(|to| to.component == index))
}

/// Returns whether the output has the samples of all inputs in turn.
pub(super) fn is_interleaved(rule: &RateRule, properties: &Properties) -> bool {
    let choice = rule.interleaves.as_ref();
    choice.is_some_and(|(name, text)| properties.value(name) == Some(&Value::Text(text.clone())))
}

pub(super) fn checked<'c>(
    component: &'c CheckedComponent,
) -> Option<(&'c ComponentSpec, &'c CheckedProperties)> {
    Some((component.spec.as_deref()?, component.properties.as_ref()?))
}

fn is_set(properties: &Properties, name: &str) -> bool {
    number(properties, name).is_some()
}

/// Returns a property that is a number above 0.
pub(super) fn number(properties: &Properties, name: &str) -> Option<f64> {
    let value = match properties.value(name)? {
        Value::Float(value) => *value,
        Value::Integer(value) => *value as f64,
        _ => return None,
    };
    (value.is_finite() && value > 0.0).then_some(value)
}
