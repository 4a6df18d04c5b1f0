//! The check of channels and rows against the components at which they arrive.

use std::fmt;

use stripline::component::{OrderRule, Properties, StreamShape, Value};

use super::components::CheckedComponent;
use super::connections::ResolvedConnection;
use super::diagnostics::{Code, Diagnostics};
use super::rate_check::{carried_on, checked, inputs, is_interleaved, number, takes_one_rate};

/// The order of the samples of a stream.
#[derive(Clone, Copy, PartialEq)]
struct Order {
    /// At least 1.
    channels: usize,
    has_rows: bool,
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (plural, rows) = (if self.channels == 1 { "" } else { "s" }, self.has_rows);
        write!(f, "{} channel{plural}{}", self.channels, if rows { " of rows" } else { "" })
    }
}

/// Reports streams of channels or rows that a component cannot take. Returns the number of channels
/// that arrive at each component; `None` if it is unknown.
pub(super) fn check(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    found: &mut Diagnostics,
) -> Vec<Option<usize>> {
    let sent = sent_by_all(links, components);
    let arrives = |link: &ResolvedConnection| sent[link.from?.component];
    for link in links {
        let Some(order) = arrives(link) else { continue };
        let Some(to) = link.to else { continue };
        let component = &components[to.component];
        let Some((spec, properties)) = checked(component) else { continue };
        let shape = spec.ports[to.port].shape;
        if let Some((problem, remedy)) = unfit(&spec.order, shape, order, &properties.values) {
            let message = format!("`{}` {problem}", component.name.value);
            found.error(Code::OrderMismatch, link.draft.place("to"), message, remedy);
        }
    }
    check_alike(links, components, arrives, found);
    let channels = |index| inputs(index, links).filter_map(arrives).map(|order| order.channels).max();
    (0..components.len()).map(channels).collect()
}

/// Reports components that take only one order of samples but have inputs of different orders.
fn check_alike(
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    arrives: impl Fn(&ResolvedConnection) -> Option<Order>,
    found: &mut Diagnostics,
) {
    for (index, component) in components.iter().enumerate() {
        if !checked(component).is_some_and(|(spec, properties)| takes_one_rate(spec, properties)) {
            continue;
        }
        let mut arriving = inputs(index, links).filter_map(|link| Some((link, arrives(link)?)));
        let Some((_, first)) = arriving.next() else { continue };
        if let Some((link, other)) = arriving.find(|(_, order)| *order != first) {
            let name = &component.name.value;
            let message = format!("`{name}` takes streams of one order, but {first} and {other} arrive");
            let remedy = if first.channels == other.channels {
                "put it before the component that makes the rows"
            } else {
                "put a `demultiplexer` behind the source of several channels"
            };
            found.error(Code::OrderMismatch, link.draft.place("to"), message, remedy);
        }
    }
}

/// Returns the reason why an order does not fit a component, and the remedy.
fn unfit(
    rule: &OrderRule,
    shape: Option<StreamShape>,
    order: Order,
    properties: &Properties,
) -> Option<(String, String)> {
    let Order { channels, has_rows } = order;
    if channels > 1 && !rule.takes_channels {
        return Some((
            format!("takes one channel, and {channels} arrive (`channels`)"),
            "put a `demultiplexer` before it, and connect the output of one channel".into(),
        ));
    }
    if has_rows && shape == Some(StreamShape::Signal) {
        return Some((
            "takes a signal in time, and rows of samples arrive (`row_length`)".into(),
            "put it before the component that makes the rows, or set block = 1 in a `multiplexer`".into(),
        ));
    }
    if !has_rows && shape.is_some_and(|shape| shape != StreamShape::Signal) {
        let remedy = match shape {
            Some(StreamShape::Frames) => "describe frames of rows (`frame_rows`) where the stream is sent",
            _ => "put an `fft` before it",
        };
        return Some((
            "takes rows of samples (`row_length`), and a signal in time arrives".into(),
            remedy.into(),
        ));
    }
    let is_named = |name: &str| !matches!(properties.value(name), Some(Value::Text(text)) if text.is_empty());
    if let Some(name) = rule.channel.as_deref().filter(|name| channels > 1 && !is_named(name)) {
        return Some((
            format!("takes one channel, and {channels} arrive (`channels`)"),
            format!("set `{name}` to the name of one of them"),
        ));
    }
    let name = rule.items.as_deref()?;
    let samples = number(properties, name)?;
    if samples % channels as f64 != 0.0 {
        return Some((
            format!("has `{name}` = {samples}, and {channels} channels arrive (`channels`)"),
            format!("set {name} = {channels}: an item has a sample of each channel"),
        ));
    }
    (has_rows && samples == 1.0).then(|| {
        let problem = format!("has `{name}` = 1, and rows of samples arrive (`row_length`)");
        (problem, format!("set `{name}` to the samples of a row, of all channels"))
    })
}

/// Returns the order of the samples that each component sends, as far as it follows from the file.
fn sent_by_all(links: &[ResolvedConnection], components: &[CheckedComponent]) -> Vec<Option<Order>> {
    carried_on(components.len(), |index, sent| sent_by(index, links, components, sent))
}

fn sent_by(
    index: usize,
    links: &[ResolvedConnection],
    components: &[CheckedComponent],
    sent: &[Option<Order>],
) -> Option<Order> {
    let (spec, properties) = checked(&components[index])?;
    let rule = spec.rate.as_ref();
    let arriving = || inputs(index, links).map(|link| link.from.and_then(|from| sent[from.component]));
    let rows = spec.order.rows.as_deref().and_then(|name| number(&properties.values, name));
    let has_rows = rows.is_some_and(|length| length > 1.0);
    if rule.is_some_and(|rule| is_interleaved(rule, &properties.values)) {
        let channels = arriving().map(|order| order.map_or(1, |order| order.channels)).sum();
        return Some(Order { channels, has_rows }).filter(|order| order.channels > 0);
    }
    let passes_on = rule.is_some_and(|rule| rule.inputs || rule.input.is_some()) || has_rows;
    let first = arriving().next().filter(|_| passes_on).flatten();
    let passed_on = first.filter(|first| arriving().all(|order| order == Some(*first)));
    if spec.order.one_channel {
        return Some(Order { channels: 1, has_rows: passed_on.is_some_and(|order| order.has_rows) });
    }
    if has_rows {
        return Some(Order { channels: passed_on.map_or(1, |order| order.channels), has_rows });
    }
    let from_facts = properties.facts.channels.map(|channels| Order { channels: channels.max(1), has_rows });
    passed_on.or(from_facts)
}
