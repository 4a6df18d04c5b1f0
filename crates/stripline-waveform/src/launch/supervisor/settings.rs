//! Resolves the names and values of requests: to existing members and valid values, or to sentences
//! for users.

use std::collections::BTreeMap;
use std::path::Path;

use stripline::component::{Access, PropertyKind, PropertySpec, Value};
use stripline::internal::control::Ask;

use super::requests::{BatchKind, refuse};
use super::{LaunchedComponent, Supervisor};
use crate::components::absolute_path;
use crate::control::{
    ChangeState, ComponentChange, NewValue, PropertyReading, RequestFault, SET_MAX, Setting, TestRun,
    WaveformReply,
};
use crate::plan::ComponentPlan;
use crate::text::{did_you_mean, listed, quoted};

impl LaunchedComponent {
    /// Records values that are in effect; returns them with the values before.
    pub(super) fn take(
        &mut self,
        plan: &ComponentPlan,
        values: BTreeMap<String, Value>,
    ) -> BTreeMap<String, NewValue> {
        let news = new_values(plan, self, &values);
        // They were checked before they were passed on.
        if let Ok(properties) = self.properties.changed(&plan.spec, &values) {
            self.properties = properties;
            self.set.extend(values);
        }
        news
    }
}

impl Supervisor<'_> {
    /// Finds a component by its name.
    pub(super) fn member_named(&self, name: &str) -> Result<usize, String> {
        self.member_of(name).ok_or_else(|| {
            let names: Vec<&str> = self.waveform.components.iter().map(|c| c.name.as_str()).collect();
            let remedy = did_you_mean(name, names.iter().copied(), "the components are");
            format!("`{}` has no component {}; {remedy}", self.waveform.name, quoted(name))
        })
    }

    pub(super) fn get(
        &mut self,
        component: Option<&str>,
        property: Option<&str>,
    ) -> Result<BatchKind, WaveformReply> {
        let members = match component {
            Some(name) => {
                let member = self.member_named(name).map_err(refuse)?;
                member..member + 1
            }
            None => 0..self.members.len(),
        };
        let mut readings = Vec::new();
        let mut open = BTreeMap::new();
        for member in members {
            let plan = &self.waveform.components[member];
            let mut properties = plan.spec.properties.iter().collect::<Vec<_>>();
            if let Some(name) = property {
                properties = vec![find(plan, name).map_err(refuse)?];
            }
            let first = readings.len();
            readings.extend(properties.into_iter().map(|property| self.reading(member, property)));
            if readings[first..].iter().any(|reading| reading.access == Access::ReadOnly) {
                match self.query(member) {
                    Ok(number) => drop(open.insert(number, member)),
                    Err((_, why)) => {
                        for reading in readings[first..].iter_mut().filter(|r| r.access == Access::ReadOnly) {
                            reading.problem = Some(why.clone());
                        }
                    }
                }
            }
        }
        Ok(BatchKind::Get(readings, open))
    }

    /// Returns the launcher's view of a property.
    fn reading(&self, member: usize, property: &PropertySpec) -> PropertyReading {
        let (plan, state) = (&self.waveform.components[member], &self.members[member]);
        let name = &property.name;
        PropertyReading {
            component: plan.name.clone(),
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

    pub(super) fn set(
        &mut self,
        folder: Option<&str>,
        settings: Vec<Setting>,
    ) -> Result<BatchKind, WaveformReply> {
        if settings.is_empty() || settings.len() > SET_MAX {
            let why = format!("{} properties at once; it takes from 1 to {SET_MAX}", settings.len());
            return Err(refuse(why));
        }
        let mut faults = Vec::new();
        // In the order in which the components are named.
        let mut wanted: Vec<(usize, BTreeMap<String, Value>)> = Vec::new();
        for setting in settings {
            match self.read(folder, &setting) {
                Ok((member, value)) => {
                    if !wanted.iter().any(|(known, _)| *known == member) {
                        wanted.push((member, BTreeMap::new()));
                    }
                    if let Some((_, values)) = wanted.iter_mut().find(|(known, _)| *known == member) {
                        values.insert(setting.property, value);
                    }
                }
                Err(fault) => faults.push(fault),
            }
        }
        if !faults.is_empty() {
            return Err(WaveformReply::Failed(RequestFault::Wrong(faults)));
        }
        let changes = wanted.into_iter().map(|(member, values)| {
            let plan = &self.waveform.components[member];
            let news = new_values(plan, &self.members[member], &values);
            let component = plan.name.clone();
            let (number, taken, reason) = match self.ask(member, Ask::Configure(values)) {
                Ok(number) => (Some(number), ChangeState::NotYet, String::new()),
                Err((taken, reason)) => (None, taken, reason),
            };
            (number, ComponentChange { component, values: news, taken, reason })
        });
        Ok(BatchKind::Set(changes.collect()))
    }

    /// Reads one setting: its component, and the checked value.
    fn read(&self, folder: Option<&str>, setting: &Setting) -> Result<(usize, Value), String> {
        let member = self.member_named(&setting.component)?;
        let plan = &self.waveform.components[member];
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

    pub(super) fn test(&mut self, component: &str, tests: &[String]) -> Result<BatchKind, WaveformReply> {
        let member = self.member_named(component).map_err(refuse)?;
        let plan = &self.waveform.components[member];
        let known = &plan.spec.tests;
        if known.is_empty() {
            return Err(refuse(format!(
                "`{component}` has no self-tests: its type, {}, declares none",
                plan.spec.name
            )));
        }
        let unknown = tests.iter().filter(|name| plan.spec.find_test(name).is_none()).map(|name| {
            let names = known.iter().map(|test| test.name.as_str());
            format!(
                "`{component}` has no self-test {}; {}",
                quoted(name),
                did_you_mean(name, names, "it has")
            )
        });
        let unknown: Vec<String> = unknown.take(SET_MAX).collect();
        if !unknown.is_empty() {
            return Err(WaveformReply::Failed(RequestFault::Wrong(unknown)));
        }
        // Each test once, in the component's order.
        let asked = known.iter().filter(|test| tests.is_empty() || tests.contains(&test.name));
        let runs = asked.map(|test| {
            let run = TestRun {
                component: component.into(),
                test: test.name.clone(),
                summary: test.summary.clone(),
                result: None,
                problem: None,
            };
            match self.ask(member, Ask::Test(test.name.clone())) {
                Ok(number) => (Some(number), run),
                Err((_, problem)) => (None, TestRun { problem: Some(problem), ..run }),
            }
        });
        Ok(BatchKind::Test(runs.collect()))
    }
}

fn find<'p>(plan: &'p ComponentPlan, name: &str) -> Result<&'p PropertySpec, String> {
    plan.spec.find_property(name).ok_or_else(|| {
        let names = plan.spec.properties.iter().map(|property| property.name.as_str());
        let mut remedy = did_you_mean(name, names, "its properties are");
        if plan.spec.properties.is_empty() {
            remedy = "it has no properties at all".into();
        }
        format!("`{}` has no property {}; {remedy}", plan.name, quoted(name))
    })
}

/// Returns the new values with the values before.
fn new_values(
    plan: &ComponentPlan,
    member: &LaunchedComponent,
    values: &BTreeMap<String, Value>,
) -> BTreeMap<String, NewValue> {
    let new = |(name, value): (&String, &Value)| {
        let before = member.properties.value(name)?.clone();
        let unit = plan.spec.find_property(name)?.unit.clone();
        Some((name.clone(), NewValue { value: value.clone(), before, unit }))
    };
    values.iter().filter_map(new).collect()
}
