//! The inference of the payload type of every connection.
//!
//! The two ends of a connection have the same type, and so do ports of a component that take their
//! type from each other. Types spread from port to port until no set of possible types changes:
//! first in the direction of the packets, then against it. A mismatch is therefore reported at the
//! port that receives the wrong type.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use stripline::component::{ComponentSpec, Direction, PortTypes, Properties, StreamShape, Value};
use stripline::packet::payload::TypeName;

use super::catalog::Catalog;
use super::components::CheckedComponent;
use super::connections::{ConnectionEnd, ResolvedConnection};
use super::diagnostics::{Code, Diagnostic, Diagnostics, Place};
use super::text::{listed, quoted};

/// Returns the payload type of every connected port, and reports ports with an undetermined type.
pub(super) fn resolve(
    components: &[CheckedComponent],
    links: &[ResolvedConnection],
    catalog: &Catalog,
    found: &mut Diagnostics,
) -> BTreeMap<ConnectionEnd, TypeName> {
    let (type_sets, excused) = (BTreeMap::new(), BTreeSet::new());
    let mut graph = Graph { components, catalog, found, type_sets, excused, edges: Vec::new() };
    graph.build(links);
    graph.spread();
    graph.report_undecided();
    graph.types(links)
}

/// A connection between two groups of ports. The port that determines the types of a group
/// identifies the group.
struct Edge {
    from: ConnectionEnd,
    to: ConnectionEnd,
    ends: (ConnectionEnd, ConnectionEnd),
    place: Place,
    broken: bool,
}

struct Graph<'g> {
    components: &'g [CheckedComponent<'g>],
    catalog: &'g Catalog<'g>,
    found: &'g mut Diagnostics,
    /// The possible payload types of a group of ports; `None` stands for any type.
    type_sets: BTreeMap<ConnectionEnd, Option<Vec<TypeName>>>,
    /// Groups of ports for which a problem was reported. Their undetermined type is not reported
    /// again.
    excused: BTreeSet<ConnectionEnd>,
    edges: Vec<Edge>,
}

impl Graph<'_> {
    fn build(&mut self, links: &[ResolvedConnection]) {
        for link in links {
            for end in [link.from, link.to].into_iter().flatten() {
                self.add(end);
            }
            match (link.from, link.to) {
                (Some(from), Some(to)) => self.edges.push(Edge {
                    from: self.root(from),
                    to: self.root(to),
                    ends: (from, to),
                    place: link.draft.place("to").clone(),
                    broken: false,
                }),
                // The other end is unresolved, but might have determined the type.
                (Some(end), None) | (None, Some(end)) => {
                    self.excused.insert(self.root(end));
                }
                (None, None) => {}
            }
        }
    }

    fn spec(&self, end: ConnectionEnd) -> Option<&ComponentSpec> {
        self.components[end.component].spec.as_deref()
    }

    /// Returns the port that determines the types of a port, through any number of
    /// [`PortTypes::SameAs`].
    fn root(&self, end: ConnectionEnd) -> ConnectionEnd {
        let Some(spec) = self.spec(end) else { return end };
        let mut port = end.port;
        for _ in 0..spec.ports.len() {
            let PortTypes::SameAs(other) = &spec.ports[port].types else { break };
            match spec.ports.iter().position(|port| port.name == *other) {
                Some(next) => port = next,
                None => break,
            }
        }
        ConnectionEnd { port, ..end }
    }

    fn add(&mut self, end: ConnectionEnd) {
        let root = self.root(end);
        if self.type_sets.contains_key(&root) {
            return;
        }
        let types = match self.spec(root).map(|spec| spec.ports[root.port].types.clone()) {
            Some(PortTypes::OneOf(types)) => Some(types),
            Some(PortTypes::Property(property)) => {
                let named = self.type_in_property(root, &property);
                if named.is_none() {
                    self.excused.insert(root);
                }
                named.map(|name| vec![name])
            }
            _ => None,
        };
        self.type_sets.insert(root, types);
    }

    fn type_in_property(&mut self, end: ConnectionEnd, name: &str) -> Option<TypeName> {
        let component = &self.components[end.component];
        let properties = component.properties.as_ref()?;
        if properties.refused.as_deref() == Some(name) {
            return None;
        }
        let Some(Value::Text(text)) = properties.values.value(name) else { return None };
        if text.is_empty() && component.spec.as_ref().is_some_and(|spec| spec.has_facts()) {
            // If the fact is missing, the component has refused its properties.
            return properties.facts.payload.clone();
        }
        let mut wrong = || {
            let place = properties.places.get(name).unwrap_or(&component.name.place);
            let message = format!("`{name}` is {}, which is not a payload type", quoted(text));
            let remedy = "use one such as cf32, f32 or message/NAME: 1 to 64 of a-z, 0-9, `-`, `/`, `.`";
            self.found.error(Code::BadProperty, place, message, remedy);
        };
        match TypeName::parse(text) {
            Ok(name) => Some(name),
            Err(error) if text.contains(['{', '(', '<']) => {
                let place = properties.places.get(name).unwrap_or(&component.name.place);
                let message = format!("`{name}` is not a payload type: {error}");
                self.found.error(Code::BadProperty, place, message, "docs/layouts.md has the grammar");
                None
            }
            Err(_) => {
                wrong();
                None
            }
        }
    }

    /// Returns whether a property names the type of a group of ports. A name without a layout then
    /// stands for the type of the same name at the other end.
    fn is_named_by_property(&self, root: ConnectionEnd) -> bool {
        let types = self.spec(root).map(|spec| &spec.ports[root.port].types);
        matches!(types, Some(PortTypes::Property(_)))
    }

    /// Narrows the sets of types along the edges until nothing changes.
    fn spread(&mut self) {
        let mut leaving: BTreeMap<ConnectionEnd, Vec<usize>> = BTreeMap::new();
        let mut arriving: BTreeMap<ConnectionEnd, Vec<usize>> = BTreeMap::new();
        for (index, edge) in self.edges.iter().enumerate() {
            leaving.entry(edge.from).or_default().push(index);
            arriving.entry(edge.to).or_default().push(index);
        }
        // An edge is checked again only if one of the ends became narrower, so the loop terminates.
        let mut forward: VecDeque<usize> = (0..self.edges.len()).collect();
        let mut backward: VecDeque<usize> = forward.clone();
        loop {
            let is_forward = !forward.is_empty();
            let queue = if is_forward { &mut forward } else { &mut backward };
            let Some(index) = queue.pop_front() else { break };
            let Some(narrowed) = self.narrow(index, is_forward) else { continue };
            forward.extend(leaving.get(&narrowed).into_iter().flatten());
            backward.extend(arriving.get(&narrowed).into_iter().flatten());
        }
    }

    /// Narrows one end of an edge to the types of the other end. Returns the end if it became
    /// narrower.
    fn narrow(&mut self, index: usize, forward: bool) -> Option<ConnectionEnd> {
        let edge = &self.edges[index];
        if edge.broken {
            return None;
        }
        let (known, target) = if forward { (edge.from, edge.to) } else { (edge.to, edge.from) };
        let (source, sink) = (&self.type_sets[&known], &self.type_sets[&target]);
        let known = source.as_ref()?;
        let common: Vec<TypeName> = match sink {
            None => known.clone(),
            Some(types) => {
                let named = (self.is_named_by_property(edge.from), self.is_named_by_property(edge.to));
                let (from_known, from_own) = if forward { named } else { (named.1, named.0) };
                let meets = |own: &TypeName| {
                    known.iter().find_map(|other| match own.as_str() == other.as_str() {
                        true if own == other => Some(own.clone()),
                        true if from_known && other.is_name_alone() => Some(own.clone()),
                        true if from_own && own.is_name_alone() => Some(other.clone()),
                        _ if own.fits(other) => Some(own.clone()),
                        _ => None,
                    })
                };
                types.iter().filter_map(meets).collect()
            }
        };
        if common.is_empty() {
            self.edges[index].broken = true;
            self.mismatch(index);
            return None;
        }
        if sink.as_ref() == Some(&common) {
            return None;
        }
        self.type_sets.insert(target, Some(common));
        Some(target)
    }

    fn mismatch(&mut self, index: usize) {
        let edge = &self.edges[index];
        let types = |end: &ConnectionEnd| self.type_sets[end].clone().unwrap_or_default();
        let (given, taken) = (types(&edge.from), types(&edge.to));
        let (from, to) = (self.name(edge.ends.0), self.name(edge.ends.1));
        let pair = given.first().zip(taken.first()).filter(|_| given.len() == 1 && taken.len() == 1);
        let differing = pair.and_then(|(one, other)| {
            difference(one.full_text(), other.full_text()).map(|texts| (one.as_str(), texts))
        });
        let place = pair.and_then(|(one, other)| one.schema()?.difference(&other.schema()?));
        let place = place.map_or(String::new(), |place| format!(": {place}"));
        let message = match differing {
            Some((name, _)) if !place.is_empty() => {
                format!("`{from}` sends another `{name}` than `{to}` takes{place}")
            }
            Some((name, (one, other))) => {
                format!("`{from}` sends another `{name}` than `{to}` takes: {one}, not {other}")
            }
            None => format!("`{from}` sends {}, but `{to}` takes {}{place}", or(&given), or(&taken)),
        };
        let mut remedies = Vec::new();
        let shape = self.spec(edge.to).and_then(|spec| spec.ports[edge.to.port].shape);
        let takes_rows = matches!(shape, Some(StreamShape::Rows | StreamShape::Frames));
        let (makers, does) = match takes_rows {
            true => (row_makers(self.catalog, &given), "makes rows"),
            false => (converters(self.catalog, &given, &taken), "converts"),
        };
        let is_namesake = |name: &TypeName| taken.iter().any(|other| other.as_str() == name.as_str());
        let namesake = given.iter().find(|name| is_namesake(name));
        let fitting = match takes_rows || (makers.is_empty() && namesake.is_none()) {
            true => self.fitting_outputs(edge.ends.1, &taken, takes_rows),
            false => Vec::new(),
        };
        if !fitting.is_empty() {
            let names = listed(fitting.iter().take(3).map(String::as_str), "or");
            remedies.push(format!("connect `{to}` to {names}, which gives {}", or(&taken)));
        } else if !makers.is_empty() {
            let names = listed(makers.into_iter().take(3), "or");
            remedies.push(format!("put a component between them that {does}, as {names}"));
        }
        for (root, wanted) in [(edge.from, &taken), (edge.to, &given)] {
            remedies.extend(self.property_remedy(root, wanted));
        }
        if let Some(name) = namesake {
            remedies.push(format!("give both components the same fields of `{name}`"));
        }
        if remedies.is_empty() {
            remedies.push(format!("connect `{to}` to an output that gives {}", or(&taken)));
        }
        let label = format!("takes {}", or(&taken));
        let error = Diagnostic::error(Code::TypeMismatch, &edge.place, message);
        self.found.push(error.label(label).help(remedies.join(", or ")));
    }

    /// Returns the outputs of other components that send only wanted types. For an input of rows, a
    /// stock component must make rows; the order of an executable's samples is not described.
    fn fitting_outputs(&self, input: ConnectionEnd, wanted: &[TypeName], takes_rows: bool) -> Vec<String> {
        let mut names = Vec::new();
        for (component, checked) in self.components.iter().enumerate() {
            let Some(spec) = checked.spec.as_deref().filter(|_| component != input.component) else {
                continue;
            };
            if takes_rows && checked.executable.is_none() && spec.order.rows.is_none() {
                continue;
            }
            let outputs =
                spec.ports.iter().enumerate().filter(|(_, port)| port.direction == Direction::Output);
            for end in outputs.map(|(port, _)| ConnectionEnd { component, port }) {
                let root = self.root(end);
                let types = match (self.type_sets.get(&root), &spec.ports[root.port].types) {
                    (Some(Some(types)), _) | (None, PortTypes::OneOf(types)) => types,
                    _ => continue,
                };
                if types.iter().all(|name| wanted.iter().any(|other| name.fits(other))) {
                    names.push(self.name(end));
                }
            }
        }
        names
    }

    /// Suggests a value for the property that determines the type of a port, so that the port gets
    /// a wanted type.
    fn property_remedy(&self, end: ConnectionEnd, wanted: &[TypeName]) -> Option<String> {
        let spec = self.spec(end)?;
        let PortTypes::Property(name) = &spec.ports[end.port].types else { return None };
        let property = spec.find_property(name)?;
        let checked = &self.components[end.component];
        let fits = |name: &&TypeName| {
            let value = Value::Text(name.as_str().into());
            property.check(&value).is_ok() && !is_refused(checked, spec, &property.name, value)
        };
        let fitting = wanted.iter().find(fits)?;
        let component = &self.components[end.component].name.value;
        Some(format!("set the property `{name}` of `{component}` to \"{fitting}\""))
    }

    /// Reports undetermined types, once for all ports that depend on each other.
    fn report_undecided(&mut self) {
        let mut neighbours: BTreeMap<ConnectionEnd, Vec<ConnectionEnd>> = BTreeMap::new();
        for edge in &self.edges {
            neighbours.entry(edge.from).or_default().push(edge.to);
            neighbours.entry(edge.to).or_default().push(edge.from);
            if edge.broken {
                self.excused.extend([edge.from, edge.to]);
            }
        }
        let mut seen = BTreeSet::new();
        for index in 0..self.edges.len() {
            let edge = &self.edges[index];
            if self.type_of(edge.to).is_some() || !seen.insert(edge.to) {
                continue;
            }
            let mut excused = false;
            let mut queue = vec![edge.to];
            while let Some(end) = queue.pop() {
                excused |= self.excused.contains(&end);
                let open = neighbours.get(&end).into_iter().flatten().copied();
                queue.extend(open.filter(|end| self.type_of(*end).is_none() && seen.insert(*end)));
            }
            if excused {
                continue;
            }
            let (from, to) = (self.name(edge.ends.0), self.name(edge.ends.1));
            let error = match &self.type_sets[&edge.to] {
                None => {
                    let message = format!("the type that `{from}` sends to `{to}` is not determined");
                    let remedy = "connect one of these components to a port with a type of its own";
                    Diagnostic::error(Code::TypeUnknown, &edge.place, message)
                        .label("takes any type")
                        .help(remedy)
                }
                Some(types) => {
                    let message = format!("`{from}` could send {} to `{to}`", or(types));
                    let remedy = format!(
                        "connect one of these components to a port that has just one of the types {}",
                        or(types)
                    );
                    Diagnostic::error(Code::TypeAmbiguous, &edge.place, message).help(remedy)
                }
            };
            self.found.push(error);
        }
    }

    fn types(&self, links: &[ResolvedConnection]) -> BTreeMap<ConnectionEnd, TypeName> {
        let ends = links.iter().flat_map(|link| [link.from, link.to]).flatten();
        ends.filter_map(|end| Some((end, self.type_of(self.root(end))?.clone()))).collect()
    }

    /// Returns the type of a group of ports, if only one is left.
    fn type_of(&self, root: ConnectionEnd) -> Option<&TypeName> {
        match self.type_sets[&root].as_deref() {
            Some([name]) => Some(name),
            _ => None,
        }
    }

    fn name(&self, end: ConnectionEnd) -> String {
        let port = self.spec(end).map_or("", |spec| &spec.ports[end.port].name);
        format!("{}.{port}", self.components[end.component].name.value)
    }
}

/// Returns whether a component that accepts its properties would refuse them with this value. For
/// example, a recording is always sent with the type that it holds.
fn is_refused(component: &CheckedComponent, spec: &ComponentSpec, property: &str, value: Value) -> bool {
    // Another program is not started again just for a remedy.
    let asks = spec.validates && component.executable.is_some();
    let Some(properties) = component.properties.as_ref().filter(|_| !asks) else { return false };
    let changed = properties.with(spec, property, value);
    let is_invalid = |values: &Properties| spec.validate(values).is_err();
    changed.is_some_and(|values| is_invalid(&values)) && !is_invalid(&properties.values)
}

fn or(types: &[TypeName]) -> String {
    let text = |name: &TypeName| match name.is_without_layout() {
        true => format!("{name} (no layout)"),
        false => name.full_text().to_owned(),
    };
    let texts: Vec<String> = types.iter().map(text).collect();
    listed(texts.iter().map(String::as_str), "or").replace('`', "")
}

/// Returns the fields of two types of the same name, from the first difference on, if the texts of
/// the types are too long to print completely.
fn difference(one: &str, other: &str) -> Option<(String, String)> {
    let is_long = one.len().max(other.len()) > 60;
    let same = one.char_indices().zip(other.chars()).take_while(|((_, a), b)| a == b).last();
    let same = same.map_or(0, |((index, c), _)| index + c.len_utf8());
    let start = one[..same].rfind([',', '{']).filter(|_| is_long)? + 1;
    Some((quoted(&one[start..]), quoted(&other[start..])))
}

/// Returns the stock components that take one of the given types and send one of the wanted types.
fn converters<'c>(catalog: &Catalog<'c>, given: &[TypeName], taken: &[TypeName]) -> Vec<&'c str> {
    let converts =
        |spec: &&ComponentSpec| has(spec, Direction::Input, given) && has(spec, Direction::Output, taken);
    catalog.components.values().filter(converts).map(|spec| spec.name.as_str()).collect()
}

/// Returns the components that make rows of samples of these types.
fn row_makers<'c>(catalog: &Catalog<'c>, given: &[TypeName]) -> Vec<&'c str> {
    let makes_rows = |spec: &&ComponentSpec| spec.order.rows.is_some() && has(spec, Direction::Input, given);
    catalog.components.values().filter(makes_rows).map(|spec| spec.name.as_str()).collect()
}

/// Returns whether a component has a port of this direction for one of these types.
fn has(spec: &ComponentSpec, direction: Direction, wanted: &[TypeName]) -> bool {
    let mut ports = spec.ports.iter().filter(|port| port.direction == direction);
    ports.any(|port| match &port.types {
        PortTypes::OneOf(types) => types.iter().any(|name| wanted.contains(name)),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_types_of_one_name_are_shown_from_their_difference_on() {
        let burst = |last: &str| {
            format!("message/burst{{start:u64,length:u64,peak_db:f32,floor_db:f32,mean_db:f32{last}}}")
        };
        let expected = ("`mean_db:f32}`".to_string(), "`mean_db:f32,snr_db:f32}`".to_string());
        assert_eq!(difference(&burst(""), &burst(",snr_db:f32")), Some(expected));
        assert_eq!(difference("det{x:f32}", "det{y:f32}"), None);
    }
}
