//! The check of properties against the sample rates that arrive.

use stripline::component::{ComponentSpec, Properties, RateRule, Value};

use super::check::Catalog;
use super::components::{CheckedComponent, CheckedProperties};
use super::connections::ResolvedConnection;
use super::diagnostics::{Code, Diagnostic, Diagnostics};

/// Lets every component that takes its rate from an input check its properties again, with the rate
/// of each channel that arrives there. `channels` has the number of them for each component.
pub(super) fn check(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    channels: &[usize],
    catalog: &Catalog,
    found: &mut Diagnostics,
) {
    let rates = rates(links, components);
    check_inputs(links, components, &rates, found);
    check_needed(links, components, &rates, found);
    for (index, component) in components.iter().enumerate() {
        let (Some(spec), Some(properties)) = (component.spec.as_deref(), &component.properties) else {
            continue;
        };
        let Some(property) = spec.rate.as_ref().and_then(|rule| rule.property.as_deref()) else { continue };
        let channels = channels[index];
        let is_checked = is_set(&properties.values, property) && channels == 1;
        let Some(rate) = rates[index].filter(|_| !is_checked) else { continue };
        // Each channel is processed at its own rate.
        let rate = rate / channels as f64;
        let Some(values) = properties.with(spec, property, Value::Float(rate)) else { continue };
        let invalid = match component.executable.as_ref().filter(|_| spec.validates) {
            None => spec.validate(&values).err(),
            Some(path) => (catalog.ask_validity)(path, &spec.name, &values).ok().flatten(),
        };
        let Some(invalid) = invalid else { continue };
        let place = invalid.property.as_deref().and_then(|name| properties.places.get(name));
        let message = format!("`{}`: {}", component.name.value, invalid.message);
        let error = Diagnostic::error(Code::PropertiesUnfit, place.unwrap_or(&component.name.place), message);
        let each = if channels == 1 { "" } else { " of each channel" };
        let help = format!("{rate} samples/s{each} arrive: change that rate at its source, or the property");
        found.push(error.help(help));
    }
}

/// Reports the components with inputs of different rates that take one rate only.
fn check_inputs(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    rates: &[Option<f64>],
    found: &mut Diagnostics,
) {
    for (index, component) in components.iter().enumerate() {
        let Some((spec, properties)) = checked(component) else { continue };
        let takes_one = |rule: &&RateRule| {
            rule.inputs && (rule.interleaves.is_none() || is_interleaved(rule, &properties.values))
        };
        if spec.rate.as_ref().filter(takes_one).is_none() {
            continue;
        }
        let mut arriving =
            inputs(index, links).filter_map(|link| Some((link, sent(link, links, components, rates)?)));
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

/// Reports the components that need a sample rate, behind a source that has none.
fn check_needed(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    rates: &[Option<f64>],
    found: &mut Diagnostics,
) {
    for (index, component) in components.iter().enumerate() {
        let Some((spec, _)) = checked(component) else { continue };
        let rule = spec.rate.as_ref().filter(|rule| rule.needed && rates[index].is_none());
        let Some(property) = rule.and_then(|rule| rule.property.as_deref()) else { continue };
        let Some(source) = without_rate(index, links, components, rates, components.len()) else { continue };
        let (name, source) = (&component.name.value, &components[source].name);
        let message =
            format!("`{name}` needs a sample rate, and the samples of `{}` have none", source.value);
        let remedy = format!("set `{property}` of `{}`, or of `{name}`", source.value);
        let error = Diagnostic::error(Code::NoRate, &component.name.place, message).help(remedy);
        found.push(error.also(&source.place, "without a sample rate"));
    }
}

/// Returns the component, at most `far` connections before this one, that sends samples without a
/// rate. `None`: there may be a rate.
fn without_rate(
    index: usize,
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    rates: &[Option<f64>],
    far: usize,
) -> Option<usize> {
    let (spec, _) = checked(&components[index]).filter(|(_, properties)| properties.refused.is_none())?;
    let rule = spec.rate.as_ref().filter(|_| rates[index].is_none() && far > 0)?;
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
    let mut senders = inputs(index, links).filter(port).filter_map(|link| link.from);
    senders.find_map(|from| without_rate(from.component, links, components, rates, far - 1))
}

/// Returns the rate at which each component works, as far as it follows from the file.
fn rates(links: &[ResolvedConnection], components: &[CheckedComponent]) -> Vec<Option<f64>> {
    carried_on(components.len(), |index, rates| rate(index, links, components, rates))
}

/// Returns a fact about each of `count` components, as far as it follows from the facts about those
/// before it: `fact` gets the index of a component and all facts that are found already.
pub(super) fn carried_on<T: Clone>(
    count: usize,
    fact: impl Fn(usize, &[Option<T>]) -> Option<T>,
) -> Vec<Option<T>> {
    let mut facts = vec![None; count];
    // Each turn carries the facts one connection further.
    for _ in 0..count {
        for index in 0..count {
            if facts[index].is_none() {
                facts[index] = fact(index, &facts);
            }
        }
    }
    facts
}

fn rate(
    index: usize,
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    rates: &[Option<f64>],
) -> Option<f64> {
    let (spec, properties) = checked(&components[index])?;
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
        let mut arriving = inputs(index, links).filter_map(|link| sent(link, links, components, rates));
        let first = arriving.next()?;
        return arriving.all(|rate| rate == first).then_some(first);
    }
    let input = rule.input.as_deref()?;
    let port = spec.ports.iter().position(|port| port.name == input)?;
    let link = inputs(index, links).find(|link| link.to.is_some_and(|to| to.port == port))?;
    // The rate of what the sender sends, which may differ from the one at which it works.
    sent(link, links, components, rates)
}

/// Returns the connections to a component.
pub(super) fn inputs(
    index: usize,
    links: &[ResolvedConnection],
) -> impl Iterator<Item = &ResolvedConnection> {
    links.iter().filter(move |link| link.to.is_some_and(|to| to.component == index))
}

/// Returns the rate of the samples on a connection.
fn sent(
    link: &ResolvedConnection,
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    rates: &[Option<f64>],
) -> Option<f64> {
    let from = link.from?.component;
    let (spec, properties) = checked(&components[from])?;
    let rate = rates[from]?;
    let Some(rule) = &spec.rate else { return Some(rate) };
    let factor = |name: Option<&str>| name.map_or(Some(1.0), |name| number(&properties.values, name));
    let (multiplier, divisor) = (factor(rule.multiplier.as_deref())?, factor(rule.divisor.as_deref())?);
    let streams = match is_interleaved(rule, &properties.values) {
        true => inputs(from, links).count() as f64,
        false => 1.0,
    };
    Some(rate * streams * multiplier / divisor)
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
