//! Resolves the names and values of requests to existing components and valid values, or to error
//! sentences for users.

use std::collections::BTreeMap;
use std::path::Path;

use stripline::component::{Access, PropertyKind, PropertySpec, Value};
use stripline::internal::control::Ask;

use super::requests::{Parts, read_only};
use super::{LaunchedComponent, Supervisor};
use crate::components::absolute_path;
use crate::control::{
    ChangeState, ComponentChange, GetRequest, NewValue, PropertyReading, RequestFault, SET_MAX, SetRequest,
    Setting, TestRequest, TestRun,
};
use crate::plan::ComponentPlan;
use crate::text::{did_you_mean, listed, quoted};

impl LaunchedComponent<'_> {
    /// Records values that are in effect. Returns them with the previous values.
    pub(super) fn take(&mut self, values: BTreeMap<String, Value>) -> BTreeMap<String, NewValue> {
        let news = self.new_values(&values);
        // The values were checked before they were passed on.
        if let Ok(properties) = self.properties.changed(&self.plan.spec, &values) {
            self.properties = properties;
            self.set.extend(values);
        }
        news
    }

    /// Returns the new values with the previous values.
    fn new_values(&self, values: &BTreeMap<String, Value>) -> BTreeMap<String, NewValue> {
        let new = |(name, value): (&String, &Value)| {
            let before = self.properties.value(name)?.clone();
            let unit = self.plan.spec.find_property(name)?.unit.clone();
            Some((name.clone(), NewValue { value: value.clone(), before, unit }))
        };
        values.iter().filter_map(new).collect()
    }
}

impl Supervisor<'_> {
    /// Finds a component by name.
    pub(super) fn member_named(&self, name: &str) -> Result<usize, String> {
        self.member_of(name).ok_or_else(|| {
            let names = self.members.iter().map(|member| member.plan.name.as_str());
            let remedy = did_you_mean(name, names, "the components are");
            format!("`{}` has no component {}; {remedy}", self.waveform.name, quoted(name))
        })
    }

    /// Returns the readings of each component.
    pub(super) fn get(&mut self, request: GetRequest) -> Result<Parts<Vec<PropertyReading>>, RequestFault> {
        let members = match &request.component {
            Some(name) => {
                let member = self.member_named(name)?;
                member..member + 1
            }
            None => 0..self.members.len(),
        };
        let mut parts = Parts::new();
        for member in members {
            let plan = self.members[member].plan;
            let properties = match &request.property {
                Some(name) => std::slice::from_ref(find(plan, name)?),
                None => &plan.spec.properties,
            };
            let readings = properties.iter().map(|property| self.reading(member, property));
            let (mut readings, mut open) = (readings.collect::<Vec<_>>(), None);
            if read_only(&mut readings).next().is_some() {
                match self.ask(member, None) {
                    Ok(number) => open = Some(number),
                    Err((_, why)) => {
                        read_only(&mut readings).for_each(|reading| reading.problem = Some(why.clone()));
                    }
                }
            }
            parts.push((open, readings));
        }
        Ok(parts)
    }

    /// Returns the launcher's view of a property.
    fn reading(&self, member: usize, property: &PropertySpec) -> PropertyReading {
        let (state, name) = (&self.members[member], &property.name);
        PropertyReading {
            component: state.plan.name.clone(),
            property: name.clone(),
            value: match property.access {
                Access::ReadOnly => None,
                Access::Fixed | Access::Changeable => state.properties.value(name).cloned(),
            },
            waiting: self.waiting_for(member, name).cloned(),
            changed: state.set.contains_key(name),
            access: property.access,
            unit: property.unit.clone(),
            allowed: property.kind.range_text(),
            summary: property.summary.clone(),
            problem: None,
        }
    }

    pub(super) fn set(&mut self, request: SetRequest) -> Result<Parts<ComponentChange>, RequestFault> {
        let SetRequest { folder, settings, .. } = request;
        if settings.is_empty() || settings.len() > SET_MAX {
            let why = format!("{} properties at once; it takes from 1 to {SET_MAX}", settings.len());
            return Err(why.into());
        }
        let mut faults = Vec::new();
        // Sorted by the order in which the request names the components.
        let mut wanted: Vec<(usize, BTreeMap<String, Value>)> = Vec::new();
        let mut moves = Vec::new();
        for setting in settings {
            if let Some(wanted) = self.read_move(&setting) {
                match wanted {
                    Ok(wanted) => moves.push(wanted),
                    Err(fault) => faults.push(fault),
                }
                continue;
            }
            match self.read(folder.as_deref(), &setting) {
                Ok((member, value)) => {
                    let known = wanted.iter().position(|(known, _)| *known == member);
                    let index = known.unwrap_or_else(|| {
                        wanted.push((member, BTreeMap::new()));
                        wanted.len() - 1
                    });
                    wanted[index].1.insert(setting.property, value);
                }
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(RequestFault::Wrong(faults));
        }
        let changes = wanted.into_iter().map(|(index, values)| {
            let member = &self.members[index];
            let (component, news) = (member.plan.name.clone(), member.new_values(&values));
            let (number, taken, reason) = match self.ask(index, Some(Ask::Configure(values))) {
                Ok(number) => (Some(number), ChangeState::NotYet, String::new()),
                Err((taken, reason)) => (None, taken, reason),
            };
            (number, ComponentChange { component, values: news, taken, reason })
        });
        let mut parts: Parts<ComponentChange> = changes.collect();
        parts.extend(moves.into_iter().map(|wanted| self.begin_move(wanted)));
        Ok(parts)
    }

    /// Reads one setting. Returns the component and the checked value.
    fn read(&self, folder: Option<&str>, setting: &Setting) -> Result<(usize, Value), String> {
        let member = self.member_named(&setting.component)?;
        let plan = self.members[member].plan;
        let property = find(plan, &setting.property)?;
        let (name, place) = (&plan.name, format!("{}.{}", plan.name, property.name));
        match property.access {
            Access::Changeable => {}
            Access::ReadOnly => {
                return Err(format!("`{place}` is read-only: the component sets it while it runs"));
            }
            Access::Fixed => {
                let others = plan.spec.properties.iter().filter(|p| p.access == Access::Changeable);
                let others: Vec<&str> = others.map(|p| p.name.as_str()).collect();
                let can = match others.is_empty() {
                    true => format!("`{name}` has nothing that can"),
                    false => format!("of `{name}`, {} can", listed(others, "and")),
                };
                return Err(format!(
                    "`{place}` cannot be changed while it runs ({can}); set it before the start, in the waveform \
                     file or with `stripline run … --set {place}=…`"
                ));
            }
        }
        let value = property.parse(&setting.value).map_err(|error| format!("{name}: {error}"))?;
        match (&property.kind, value) {
            (PropertyKind::Path, Value::Text(path)) => absolute_path(path, folder.map(Path::new))
                .map(|path| (member, Value::Text(path)))
                .ok_or_else(|| format!("`{place}`: write the path from the root")),
            (_, value) => Ok((member, value)),
        }
    }

    pub(super) fn test(&mut self, request: &TestRequest) -> Result<Parts<TestRun>, RequestFault> {
        let TestRequest { component, tests, .. } = request;
        let member = self.member_named(component)?;
        let plan = self.members[member].plan;
        let known = &plan.spec.tests;
        if known.is_empty() {
            let type_name = &plan.spec.name;
            let why = format!("`{component}` has no self-tests: its type, {type_name}, declares none");
            return Err(why.into());
        }
        let unknown = tests.iter().filter(|name| plan.spec.find_test(name).is_none()).map(|name| {
            let remedy = did_you_mean(name, known.iter().map(|test| test.name.as_str()), "it has");
            format!("`{component}` has no self-test {}; {remedy}", quoted(name))
        });
        let unknown: Vec<String> = unknown.take(SET_MAX).collect();
        if !unknown.is_empty() {
            return Err(RequestFault::Wrong(unknown));
        }
        // Each test once, in the component's order.
        let asked = known.iter().filter(|test| tests.is_empty() || tests.contains(&test.name));
        let runs = asked.map(|test| {
            let run = TestRun {
                component: component.clone(),
                test: test.name.clone(),
                summary: test.summary.clone(),
                result: None,
                problem: None,
            };
            match self.ask(member, Some(Ask::Test(test.name.clone()))) {
                Ok(number) => (Some(number), run),
                Err((_, problem)) => (None, TestRun { problem: Some(problem), ..run }),
            }
        });
        Ok(runs.collect())
    }
}

fn find<'p>(plan: &'p ComponentPlan, name: &str) -> Result<&'p PropertySpec, String> {
    plan.spec.find_property(name).ok_or_else(|| {
        // The name is an option of a connection, or a port alone.
        let (port, option) = name.split_once(':').unwrap_or((name, ""));
        if plan.spec.ports.iter().any(|known| known.name == port) {
            let subject = match option {
                "" => format!("{} of `{}` is a port", quoted(port), plan.name),
                _ => format!("{} of port `{}.{port}` cannot change while it runs", quoted(option), plan.name),
            };
            return format!(
                "{subject}; of a port only the transport can change, as in {}.{port}:transport=uds; the rest is in \
                 the waveform file",
                plan.name
            );
        }
        let names = plan.spec.properties.iter().map(|property| property.name.as_str());
        let mut remedy = did_you_mean(name, names, "its properties are");
        if plan.spec.properties.is_empty() {
            remedy = "it has no properties at all".into();
        }
        format!("`{}` has no property {}; {remedy}", plan.name, quoted(name))
    })
}
