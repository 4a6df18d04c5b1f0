//! The check of each component: the program, the placement and the properties.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;

use stripline::component::{
    Access, ComponentSpec, Properties, PropertyFacts, PropertyKind, PropertySpec, Value,
};
use stripline::internal::{CHECK_OPTION, number, units};
use stripline::node::Dispatch;

use super::at_once::at_once;
use super::catalog::Catalog;
use super::describe::{DescribeError, ExecutableSpecs};
use super::diagnostics::{At, Code, Diagnostic, Diagnostics, Place};
use super::file::ComponentDraft;
use super::listing::example_value;
use super::overrides::{Options, SetOption};
use super::program_command::ProgramCommand;
use super::synonyms::did_you_mean_key;
use super::text::{BUILD_PAGES, did_you_mean, listed, quoted};
use super::{Placement, Restart, RestartWhen};

/// A component that has passed through the checks of components.
pub(super) struct CheckedComponent<'c> {
    pub name: At<String>,
    /// `None` if the specification is unavailable, which has been reported.
    pub spec: Option<Cow<'c, ComponentSpec>>,
    pub executable: Option<ProgramCommand>,
    /// The transports of the executable; `None` stands for the launcher's transports.
    pub transports: Option<Vec<String>>,
    pub placement: Placement,
    pub restart: Restart,
    pub priority: Option<u8>,
    pub cpus: Vec<usize>,
    pub dispatch: Dispatch,
    /// `None` if a property is wrong, which has been reported.
    pub properties: Option<CheckedProperties>,
}

impl CheckedComponent<'_> {
    /// Returns whether the component's program has a transport.
    pub(super) fn has_transport(&self, name: &str) -> bool {
        self.transports.as_ref().is_none_or(|transports| transports.iter().any(|known| known == name))
    }

    /// Returns the noun for the part that has the component's transports.
    pub(super) fn part_with_transports(&self) -> &'static str {
        let is_python = self.executable.as_ref().is_some_and(ProgramCommand::is_python);
        if is_python { "Python module" } else { "executable" }
    }

    /// Returns whether both components are threads of one process, either the launcher's or a
    /// process of one executable.
    pub(super) fn shares_process(&self, other: &Self) -> bool {
        let are_threads = [self, other].iter().all(|it| it.placement == Placement::Thread);
        are_threads && self.executable == other.executable
    }
}

/// The properties of a component. Each value is valid by itself.
pub(super) struct CheckedProperties {
    pub values: Properties,
    /// The place in the source where each property was set.
    pub places: BTreeMap<String, Place>,
    pub facts: PropertyFacts,
    /// The property that the component has refused, which has been reported; empty if it refused
    /// several together.
    pub refused: Option<String>,
}

impl CheckedProperties {
    /// Returns the properties with one value replaced; `None` if the component does not accept the
    /// value.
    pub(super) fn with(&self, spec: &ComponentSpec, name: &str, value: Value) -> Option<Properties> {
        let settable = spec.properties.iter().filter(|property| property.access != Access::ReadOnly);
        let kept = settable.filter_map(|property| {
            let value = self.values.value(&property.name)?.clone();
            Some((property.name.clone(), value))
        });
        let mut values: BTreeMap<String, Value> = kept.collect();
        values.insert(name.into(), value);
        Properties::new(spec, values).ok()
    }
}

/// Checks every component.
pub(super) fn check<'c>(
    drafts: Vec<ComponentDraft>,
    options: &Options,
    catalog: &Catalog<'c>,
    folder: &Path,
    found: &mut Diagnostics,
) -> Vec<CheckedComponent<'c>> {
    let described = describe_all(&drafts, catalog, folder);
    let cpus_here = cpus_of_this_machine();
    check_set_names(options, &drafts, found);
    let threads = threads(&drafts, options, folder, &described);
    if let Some(placement) = options.placement.as_ref().filter(|at| at.value == Placement::Thread) {
        let stay = || drafts.iter().filter(|draft| !threads.contains(&draft.name.value));
        let names = listed(stay().map(|draft| draft.name.value.as_str()), "and");
        let commands: Vec<_> = stay().filter_map(|draft| draft.executable.as_ref()).collect();
        if let Some(executable) = commands.first() {
            let (verb, programs) = match commands.len() {
                1 => ("stays a process", "its program"),
                _ => ("stay processes", "each program"),
            };
            let message = format!("{names} {verb}: no other component can share the process of {programs}");
            let remedy = one_program(&executable.value.command(folder));
            let warning = Diagnostic::warning(Code::PlacementUnfit, &placement.place, message);
            found.push(warning.help(format!("to have threads, {remedy}")));
        }
    }
    let mut reported = BTreeSet::new();
    let check = |draft: ComponentDraft| {
        let executable = draft.executable.as_ref().map(|at| at.value.command(folder));
        let mut checker =
            ComponentChecker { draft: &draft, executable: executable.as_ref(), options, catalog, found };
        let spec = checker.spec(&described, &mut reported);
        checker.unknown_keys(spec.as_deref());
        let placement = checker.placement(threads.contains(&draft.name.value));
        let restart = checker.restart(placement);
        checker.cpus(cpus_here.as_deref());
        let dispatch = checker.dispatch(spec.as_deref());
        let properties = spec.as_deref().and_then(|spec| {
            let properties = checker.properties(spec, folder)?;
            let refused = checker.validate(spec, &properties);
            Some(CheckedProperties { refused, ..properties })
        });
        let described = executable.as_ref().and_then(|path| described.get(path)?.as_ref().ok());
        CheckedComponent {
            transports: described.and_then(|executable| executable.transports.clone()),
            spec,
            placement,
            restart,
            dispatch,
            properties,
            executable,
            name: draft.name,
            priority: draft.priority,
            cpus: draft.cpus.into_iter().map(|cpu| cpu.value).collect(),
        }
    };
    drafts.into_iter().map(check).collect()
}

type Described = BTreeMap<ProgramCommand, Result<ExecutableSpecs, DescribeError>>;

/// Queries every executable once, several at a time.
fn describe_all(drafts: &[ComponentDraft], catalog: &Catalog, folder: &Path) -> Described {
    const AT_ONCE: usize = 8;
    let commands: BTreeSet<ProgramCommand> =
        drafts.iter().filter_map(|draft| Some(draft.executable.as_ref()?.value.command(folder))).collect();
    let commands: Vec<ProgramCommand> = commands.into_iter().collect();
    let mut described = Described::new();
    for group in commands.chunks(AT_ONCE) {
        described.extend(at_once(group.to_vec(), |command| {
            let specs = (catalog.describe)(&command);
            (command, specs)
        }));
    }
    described
}

/// Returns the names of the components that can be threads, if placed so: stock components, and
/// components of an executable that at least two of these components share. A missing description
/// has been reported, and counts as one that fits.
fn threads(
    drafts: &[ComponentDraft],
    options: &Options,
    folder: &Path,
    described: &Described,
) -> BTreeSet<String> {
    let option = options.placement.as_ref().map(|at| at.value);
    let is_meant =
        |draft: &&ComponentDraft| option.or(draft.placement).is_some_and(|it| it == Placement::Thread);
    let command = |draft: &ComponentDraft| draft.executable.as_ref().map(|at| at.value.command(folder));
    let mut sharing: BTreeMap<ProgramCommand, usize> = BTreeMap::new();
    for command in drafts.iter().filter(is_meant).filter_map(command) {
        *sharing.entry(command).or_default() += 1;
    }
    let can = |draft: &&ComponentDraft| {
        let command = command(draft);
        let specs = command.as_ref().and_then(|command| described.get(command)?.as_ref().ok());
        specs.is_none_or(|specs| {
            specs.shares_process && command.is_some_and(|command| sharing.get(&command) >= Some(&2))
        })
    };
    drafts.iter().filter(can).map(|draft| draft.name.value.clone()).collect()
}

/// Returns the way to get components of separate programs into one process.
pub(super) fn one_program(command: &ProgramCommand) -> &'static str {
    match command.is_python() {
        true => {
            "write the classes in one script, which ends with `stripline.main(Map, Detector)`, and give each \
             component the same `exec`, its class as in type = \"map\", and placement = \"thread\""
        }
        false => {
            "write the types in one executable (in Rust with `stripline::component::main_of`), and give each \
             component the same `exec`, its `type`, and placement = \"thread\""
        }
    }
}

/// Returns the numbers of the processors that are online; `None` where they cannot be determined.
fn cpus_of_this_machine() -> Option<Vec<RangeInclusive<usize>>> {
    let text = std::fs::read_to_string("/sys/devices/system/cpu/online").ok()?;
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse().ok()?..=last.parse().ok()?)
    };
    text.trim().split(',').map(range).collect()
}

/// The word that stands for the type of a component in `--set COMPONENT.type=TYPE`.
const TYPE: &str = "type";

/// Replaces the types of stock components by the types that options name. The properties of the
/// file are left out, because they belong to the earlier type. A component type with a property of
/// that name keeps its type, and the option sets the property.
pub(super) fn replace_types(drafts: &mut [ComponentDraft], options: &mut Options, catalog: &Catalog) {
    let is_property = |stock: &At<String>| {
        let spec = catalog.components.get(&stock.value);
        spec.is_some_and(|spec| spec.properties.iter().any(|property| property.name == TYPE))
    };
    options.set.retain(|SetOption { component, property, text }| {
        let draft = drafts.iter_mut().find(|draft| draft.name.value == component.value);
        let stock = draft.filter(|draft| property.value == TYPE && draft.executable.is_none());
        let Some(draft) = stock.filter(|draft| draft.stock.as_ref().is_some_and(|stock| !is_property(stock)))
        else {
            return true;
        };
        draft.stock = Some(At { value: text.value.clone(), place: text.place.clone() });
        draft.properties.clear();
        false
    });
}

fn check_set_names(options: &Options, drafts: &[ComponentDraft], found: &mut Diagnostics) {
    let names = || drafts.iter().map(|draft| draft.name.value.as_str());
    let known: BTreeSet<&str> = names().collect();
    for SetOption { component, .. } in &options.set {
        if !known.contains(component.value.as_str()) {
            let message = format!("there is no component {}", quoted(&component.value));
            let remedy = did_you_mean(&component.value, known.iter().copied(), "the components are");
            found.error(Code::UnknownComponent, &component.place, message, remedy);
        }
    }
}

struct ComponentChecker<'d, 'c> {
    draft: &'d ComponentDraft,
    executable: Option<&'d ProgramCommand>,
    options: &'d Options,
    catalog: &'d Catalog<'c>,
    found: &'d mut Diagnostics,
}

impl<'c> ComponentChecker<'_, 'c> {
    /// Returns the specification of the component. An executable without a specification is
    /// reported with the first component that names it.
    fn spec(
        &mut self,
        described: &Described,
        reported: &mut BTreeSet<ProgramCommand>,
    ) -> Option<Cow<'c, ComponentSpec>> {
        let (draft, catalog) = (self.draft, self.catalog);
        match (&draft.stock, &draft.executable) {
            (None, None) if draft.has_program => None,
            (None, None) => {
                let message = format!("component `{}` has neither `type` nor `exec`", draft.name.value);
                let remedy = "give it a stock type, as type = \"null-sink\", or an executable of yours, as \
                              exec = \"../target/release/gain\"";
                self.found.error(Code::Program, &draft.name.place, message, remedy);
                None
            }
            (Some(named), Some(at)) if described.get(self.executable?)?.is_ok() => {
                let specs = &described.get(self.executable?)?.as_ref().ok()?.specs;
                let spec = specs.iter().find(|spec| spec.name == named.value);
                if spec.is_none() {
                    let message = format!(
                        "{} has no component type {}",
                        quoted(&at.value.text()),
                        quoted(&named.value)
                    );
                    let names = specs.iter().map(|spec| spec.name.as_str());
                    let remedy = did_you_mean(&named.value, names, "its types are");
                    self.found.error(Code::UnknownType, &named.place, message, remedy);
                }
                spec.map(|spec| Cow::Owned(spec.clone()))
            }
            (Some(stock), Some(executable)) if catalog.components.contains_key(&stock.value) => {
                let message = format!("component `{}` has both `type` and `exec`", draft.name.value);
                let error = Diagnostic::error(Code::Program, &executable.place, message)
                    .label("the user's executable")
                    .also(&stock.place, "a stock type")
                    .help("keep one of the two");
                self.found.push(error);
                None
            }
            (Some(stock), None) => {
                let spec = catalog.components.get(&stock.value);
                if spec.is_none() {
                    let message = format!("unknown component type {}", quoted(&stock.value));
                    let names = catalog.components.keys().map(String::as_str);
                    let mut remedy = did_you_mean(&stock.value, names, "the stock types are");
                    if let Some((_, brings)) = catalog.absent.iter().find(|(name, _)| *name == stock.value) {
                        remedy = format!("it is not in this program: {brings} ({BUILD_PAGES})");
                    }
                    if stock.value.contains('/') {
                        remedy = "an executable is named by `exec` in place of `type`".into();
                    }
                    self.found.error(Code::UnknownType, &stock.place, message, remedy);
                }
                spec.map(Cow::Borrowed)
            }
            (_, Some(at)) => match described.get(self.executable?)? {
                Ok(ExecutableSpecs { specs, .. }) if specs.len() > 1 => {
                    let message = format!("{} has several component types", quoted(&at.value.text()));
                    let names = specs.iter().map(|spec| spec.name.as_str());
                    let remedy = format!("name one of them by `type`: {}", listed(names, "or"));
                    self.found.error(Code::Program, &at.place, message, remedy);
                    None
                }
                Ok(described) => described.specs.first().map(|spec| Cow::Owned(spec.clone())),
                Err(_) if !reported.insert(self.executable?.clone()) => None,
                Err(error) => {
                    let bad_spec = matches!(error, DescribeError::BadSpec(..));
                    let code = if bad_spec { Code::BadSpec } else { Code::Describe };
                    let mut finding = Diagnostic::error(code, &at.place, error.to_string())
                        .quote(error.printed())
                        .help(error.remedy());
                    if let DescribeError::Missing(command) = error
                        && !command.is_not_in_path()
                    {
                        finding = finding.label(format!("searched as {}", command.program.display()));
                    }
                    self.found.push(finding);
                    None
                }
            },
        }
    }

    fn unknown_keys(&mut self, spec: Option<&ComponentSpec>) {
        let draft = self.draft;
        for key in &draft.unknown_keys {
            let is_property = spec.is_some_and(|spec| spec.find_property(&key.value).is_some());
            let name = &draft.name.value;
            let remedy = if is_property {
                format!("it is a property: move it into the table [component.{name}.properties]")
            } else if key.value == "name" {
                format!("its name is the name of the table, here `{name}`; leave the key out")
            } else {
                did_you_mean_key(&key.value, draft.keys.iter().copied(), "the keys here are")
            };
            let message = format!("unknown key {}", quoted(&key.value));
            self.found.error(Code::UnknownKey, &key.place, message, remedy);
        }
    }

    fn placement(&mut self, can_be_thread: bool) -> Placement {
        let draft = self.draft;
        if let Some(option) = &self.options.placement {
            // Executables that cannot follow the option have been reported once for all components.
            return if can_be_thread { option.value } else { Placement::Process };
        }
        let placement = draft.placement.unwrap_or(Placement::Process);
        if placement == Placement::Thread && !can_be_thread {
            let name = &draft.name.value;
            let message = format!(
                "`{name}` cannot be a thread: no other component can share the process of its program"
            );
            let sharing = self.executable.map_or("", one_program);
            let remedy = format!("leave `placement` out; or {sharing}");
            self.found.error(Code::PlacementUnfit, draft.place("placement"), message, remedy);
            return Placement::Process;
        }
        placement
    }

    fn restart(&mut self, placement: Placement) -> Restart {
        let draft = self.draft;
        let restart = draft.restart.unwrap_or_default();
        if restart.when() == RestartWhen::Never || placement == Placement::Process {
            return restart;
        }
        let place = draft.place("restart");
        if self.options.placement.is_some() {
            let warning = Diagnostic::warning(Code::RestartIgnored, place, "a thread is not started again")
                .help("`--placement threads` makes this component a thread; it will end the waveform");
            self.found.push(warning);
        } else {
            let remedy = "remove `placement = \"thread\"`, or write restart = \"never\"";
            self.found.error(Code::RestartUnfit, place, "a thread cannot be started again", remedy);
        }
        Restart::default().then(restart.after_giving_up())
    }

    fn cpus(&mut self, here: Option<&[RangeInclusive<usize>]>) {
        let Some(ranges) = here else { return };
        for cpu in self.draft.cpus.iter().filter(|cpu| !ranges.iter().any(|r| r.contains(&cpu.value))) {
            let message = format!("this machine has no processor {}", cpu.value);
            let ranges = ranges.iter().map(|range| match (range.start(), range.end()) {
                (first, last) if first == last => first.to_string(),
                (first, last) => format!("{first} to {last}"),
            });
            let remedy = format!("it has {}", ranges.collect::<Vec<_>>().join(", "));
            self.found.push(Diagnostic::warning(Code::NoSuchCpu, &cpu.place, message).help(remedy));
        }
    }

    /// Returns the dispatch of the component. Reports a dispatch that a component with a loop of
    /// its own cannot have.
    fn dispatch(&mut self, spec: Option<&ComponentSpec>) -> Dispatch {
        let draft = self.draft;
        let dispatch = draft.dispatch.unwrap_or(Dispatch::Queue);
        if let Some(spec) = spec.filter(|spec| dispatch != Dispatch::Queue && !spec.any_dispatch) {
            let name = &draft.name.value;
            let message =
                format!("`{name}` takes its packets itself, so its `dispatch` cannot be \"{dispatch}\"");
            let handlers = self.catalog.components.values().filter(|spec| spec.any_dispatch);
            let handlers: Vec<&str> = handlers.map(|spec| spec.name.as_str()).collect();
            let mut remedy = "write dispatch = \"queue\", or leave it out".to_owned();
            if !handlers.is_empty() {
                remedy = format!("{remedy}; other dispatches are for {}", listed(handlers, "and"));
            }
            let error = Diagnostic::error(Code::DispatchUnfit, draft.place("dispatch"), message)
                .label(format!("`{}` owns its loop", spec.name));
            self.found.push(error.help(remedy));
        }
        dispatch
    }

    fn properties(&mut self, spec: &ComponentSpec, folder: &Path) -> Option<CheckedProperties> {
        let draft = self.draft;
        let here = std::path::absolute(".").ok();
        let mut all_fit = true;
        let (mut values, mut places) = (BTreeMap::new(), BTreeMap::new());
        let in_file = draft.properties.iter().map(|property| {
            (&property.name, &property.value.place, property.value.value.as_ref().map(Ok), Some(folder))
        });
        let set = self.options.set.iter().filter(|set| set.component.value == draft.name.value);
        let set = set
            .map(|set| (&set.property, &set.text.place, Some(Err(set.text.value.as_str())), here.as_deref()));
        for (name, place, value, folder) in in_file.chain(set) {
            match value.and_then(|value| self.property(spec, name, place, value, folder)) {
                Some(value) => {
                    places.insert(name.value.clone(), place.clone());
                    values.insert(name.value.clone(), value);
                }
                None => all_fit = false,
            }
        }
        let names: Vec<&str> = draft.properties.iter().map(|property| property.name.value.as_str()).collect();
        for property in &spec.properties {
            let name = property.name.as_str();
            if property.default.is_none() && !values.contains_key(name) && !names.contains(&name) {
                let example = example_value(property);
                let message = format!("`{}` needs its property `{name}`", draft.name.value);
                let remedy = format!(
                    "add properties = {{ {name} = {example} }}, or --set {}.{name}=…; it is: {}",
                    draft.name.value, property.summary
                );
                self.found.error(Code::MissingProperty, &draft.name.place, message, remedy);
                all_fit = false;
            }
        }
        if !all_fit {
            return None;
        }
        // All given values have been checked, so a remaining error is a fault of the component
        // itself.
        let wrong = |errors: Vec<String>| {
            let message = format!("`{}` describes itself wrongly: {}", spec.name, errors.join("; "));
            let remedy = "correct the ComponentSpec in its source";
            self.found.error(Code::BadSpec, &draft.name.place, message, remedy);
        };
        let values = Properties::new(spec, values).map_err(wrong).ok()?;
        let facts = spec.facts_of(&values);
        Some(CheckedProperties { values, places, facts, refused: None })
    }

    /// Lets the component check all properties together, before it is created. Returns the property
    /// that the component has refused, or an empty name if it refused several together.
    fn validate(&mut self, spec: &ComponentSpec, properties: &CheckedProperties) -> Option<String> {
        let (name, executable) = (&self.draft.name, self.executable);
        let invalid = match executable.filter(|_| spec.validates) {
            None => spec.validate(&properties.values).err(),
            Some(path) => match (self.catalog.ask_validity)(path, &spec.name, &properties.values) {
                Ok(invalid) => invalid,
                Err(error) => {
                    let place = self.draft.place("exec");
                    let said = error.of_option(CHECK_OPTION);
                    let finding = Diagnostic::error(Code::Describe, place, said).quote(error.printed());
                    self.found.push(finding.help(error.remedy()));
                    None
                }
            },
        };
        let invalid = invalid?;
        let property = invalid.property.as_deref().and_then(|name| spec.find_property(name));
        let said = property.and_then(|property| properties.places.get(&property.name));
        let message = format!("`{}`: {}", name.value, invalid.message);
        let remedy = match (invalid.remedy.is_empty(), executable) {
            (false, _) => invalid.remedy,
            (true, None) => format!("`stripline components {}` lists its properties", spec.name),
            (true, Some(_)) => "change its properties".into(),
        };
        let mut error =
            Diagnostic::error(Code::PropertiesUnfit, said.unwrap_or(&name.place), message).help(remedy);
        let relative = |at: &&Place| !at.text().trim_start_matches(['"', '\'']).starts_with('/');
        if property.is_some_and(|property| property.kind == PropertyKind::Path) {
            error = match said {
                None => error.label("it is not set, and its default is relative to the current folder"),
                Some(at) if !relative(&at) => error,
                Some(at) if at.is_option() => error.label("relative to the current folder"),
                Some(_) => error.label("relative to the waveform file"),
            };
        }
        self.found.push(error);
        Some(invalid.property.unwrap_or_default())
    }

    /// Checks one property of the file, and returns the checked value.
    fn property(
        &mut self,
        spec: &ComponentSpec,
        named: &At<String>,
        place: &Place,
        value: Result<&Value, &str>,
        folder: Option<&Path>,
    ) -> Option<Value> {
        let name = &named.value;
        let Some(property) = spec.find_property(name) else {
            let message = format!("`{}` has no property {}", spec.name, quoted(name));
            let names = spec.properties.iter().map(|property| property.name.as_str());
            let mut remedy = did_you_mean_key(name, names, "its properties are");
            if spec.properties.is_empty() {
                remedy = "it has no properties at all".into();
            }
            self.found.error(Code::UnknownProperty, &named.place, message, remedy);
            return None;
        };
        if property.access == Access::ReadOnly {
            let message = format!("`{name}` cannot be set: the component sets it while it runs");
            let remedy = "leave it out; `stripline get` prints it";
            self.found.error(Code::BadProperty, &named.place, message, remedy);
            return None;
        }
        let checked = match value {
            Ok(value) => property.check(value).map_err(|error| invalid(property, value, error)),
            Err(text) => property.parse(text).map_err(|error| {
                let value = text.parse().map_or_else(|_| Value::Text(text.into()), Value::Float);
                invalid(property, &value, error)
            }),
        };
        match checked {
            Err((message, remedy)) => {
                self.found.error(Code::BadProperty, place, message, remedy);
                None
            }
            Ok(Value::Text(path)) if matches!(property.kind, PropertyKind::Path) => {
                let absolute = absolute_path(path, folder);
                if absolute.is_none() {
                    let message = format!("the folder that `{name}` is relative to is not UTF-8 text");
                    self.found.error(Code::BadProperty, place, message, "write the path from the root");
                }
                absolute.map(Value::Text)
            }
            Ok(value) => Some(value),
        }
    }
}

/// Returns an absolute path. An empty path, which means no file, stays empty.
pub(super) fn absolute_path(path: String, folder: Option<&Path>) -> Option<String> {
    if path.is_empty() || path == "-" || Path::new(&path).is_absolute() {
        return Some(path);
    }
    let path = folder?.join(path);
    // `absolute` resolves `.` but not `..`, which may lead elsewhere behind a symbolic link.
    let path = std::path::absolute(&path).unwrap_or(path);
    path.into_os_string().into_string().ok()
}

/// Returns the problem with a value, and the allowed values.
fn invalid(property: &PropertySpec, value: &Value, error: String) -> (String, String) {
    let name = &property.name;
    let must_be = || format!("it must be {}", property.kind.range_text());
    match (&property.kind, value) {
        (PropertyKind::Float { .. }, Value::Float(x)) => (format!("`{name}` is {}", number(*x)), must_be()),
        (PropertyKind::Float { .. }, Value::Integer(n)) => (format!("`{name}` is {n}"), must_be()),
        (PropertyKind::Integer { .. }, Value::Integer(n)) => (format!("`{name}` is {n}"), must_be()),
        (PropertyKind::Integer { min, max }, Value::Float(x)) if x.fract() == 0.0 && x.abs() < 1e15 => {
            let whole = *x as i64;
            if (min..=max).contains(&&whole) {
                let remedy = format!("write it without point and exponent: {whole}");
                (format!("`{name}` takes a whole number"), remedy)
            } else {
                (format!("`{name}` is {whole}"), must_be())
            }
        }
        (PropertyKind::Integer { .. }, Value::Float(x)) => {
            (format!("`{name}` takes a whole number, not {}", number(*x)), String::new())
        }
        (PropertyKind::Choice { choices }, Value::Text(word)) => {
            let remedy = did_you_mean(word, choices.iter().map(String::as_str), "it is one of");
            (format!("`{name}` cannot be {}", quoted(word)), remedy)
        }
        (kind, Value::Text(text)) if !matches!(kind, PropertyKind::Text | PropertyKind::Path) => {
            let remedy = match property.parse(text) {
                Ok(_) => "write it without quotes".into(),
                Err(_) => units::remedy(property, text).unwrap_or_default(),
            };
            (format!("`{name}` takes {}, not the text {}", kind.noun(), quoted(text)), remedy)
        }
        _ => (error, String::new()),
    }
}
