//! The check of properties against the sample rates that arrive.

use std::collections::BTreeMap;

use stripline::component::{ComponentSpec, Properties, Value};

use super::check::Catalog;
use super::components::CheckedComponent;
use super::connections::ResolvedConnection;
use super::diagnostics::{Code, Diagnostic, Diagnostics};

/// Lets every component that takes its rate from an input check its properties again, with the rate
/// of the samples that arrive there.
pub(super) fn check(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    catalog: &Catalog,
    found: &mut Diagnostics,
) {
    let rates = rates(links, components);
    for (index, component) in components.iter().enumerate() {
        let (Some(spec), Some(properties)) = (component.spec.as_deref(), &component.properties) else {
            continue;
        };
        let Some(property) = spec.rate.as_ref().and_then(|rule| rule.property.as_deref()) else { continue };
        let Some(rate) = rates[index].filter(|_| !is_set(&properties.values, property)) else { continue };
        let Some(values) = with_rate(spec, &properties.values, property, rate) else { continue };
        let invalid = match component.executable.as_ref().filter(|_| spec.validates) {
            None => spec.validate(&values).err(),
            Some(path) => (catalog.ask_validity)(path, &spec.name, &values).ok().flatten(),
        };
        let Some(invalid) = invalid else { continue };
        let place = invalid.property.as_deref().and_then(|name| properties.places.get(name));
        let message = format!("`{}`: {}", component.name.value, invalid.message);
        let error = Diagnostic::error(Code::PropertiesUnfit, place.unwrap_or(&component.name.place), message);
        found.push(
            error.help(format!("{rate} samples/s arrive: change that rate at its source, or the property")),
        );
    }
}

/// Returns the rate at which each component works, as far as it follows from the file.
fn rates(links: &[ResolvedConnection], components: &[CheckedComponent]) -> Vec<Option<f64>> {
    let mut rates = vec![None; components.len()];
    // Each turn carries the rates one connection further.
    for _ in 0..components.len() {
        for index in 0..components.len() {
            if rates[index].is_none() {
                rates[index] = rate(index, links, components, &rates);
            }
        }
    }
    rates
}

fn rate(
    index: usize,
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    rates: &[Option<f64>],
) -> Option<f64> {
    let (spec, properties) = checked(&components[index])?;
    let rule = spec.rate.as_ref()?;
    if let Some(name) = rule.property.as_deref().filter(|name| is_set(properties, name)) {
        return number(properties, name);
    }
    let input = rule.input.as_deref()?;
    let port = spec.ports.iter().position(|port| port.name == input)?;
    let link =
        links.iter().find(|link| link.to.is_some_and(|to| (to.component, to.port) == (index, port)))?;
    let from = link.from?.component;
    let (spec, properties) = checked(&components[from])?;
    let divisor = match spec.rate.as_ref()?.divisor.as_deref() {
        Some(name) => number(properties, name)?,
        None => 1.0,
    };
    rates[from].map(|rate| rate / divisor)
}

fn checked<'c>(component: &'c CheckedComponent) -> Option<(&'c ComponentSpec, &'c Properties)> {
    Some((component.spec.as_deref()?, &component.properties.as_ref()?.values))
}

fn is_set(properties: &Properties, name: &str) -> bool {
    number(properties, name).is_some()
}

/// Returns a property that is a number above 0.
fn number(properties: &Properties, name: &str) -> Option<f64> {
    let value = match properties.value(name)? {
        Value::Float(value) => *value,
        Value::Integer(value) => *value as f64,
        _ => return None,
    };
    (value.is_finite() && value > 0.0).then_some(value)
}

/// Returns the properties with that rate; `None`: the component does not take it.
fn with_rate(spec: &ComponentSpec, properties: &Properties, name: &str, rate: f64) -> Option<Properties> {
    let kept = spec.properties.iter().filter_map(|property| {
        let value = properties.value(&property.name)?.clone();
        Some((property.name.clone(), value))
    });
    let mut values: BTreeMap<String, Value> = kept.collect();
    values.insert(name.into(), Value::Float(rate));
    Properties::new(spec, values).ok()
}
