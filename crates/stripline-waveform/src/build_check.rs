//! The check of types without a layout. Only programs of the same build may exchange such types,
//! unless the connection allows others. The link applies the same rule when it connects.

use std::collections::BTreeMap;
use std::path::Path;

use stripline::internal::is_same_build;
use stripline::packet::payload::TypeName;

use super::components::CheckedComponent;
use super::connections::{ConnectionEnd, ResolvedConnection};
use super::diagnostics::{Code, Diagnostic, Diagnostics};

/// Applies `types-without-layout` of every connection, and reports a type that needs an allowance
/// but does not have the allowance.
pub(super) fn check(
    links: &mut [ResolvedConnection],
    components: &[CheckedComponent],
    types: &BTreeMap<ConnectionEnd, TypeName>,
    found: &mut Diagnostics,
) {
    for link in links {
        // A missing end has been reported.
        let (Some(from), Some(to)) = (link.from, link.to) else { continue };
        let Some(name) = types.get(&from) else { continue };
        link.draft.options.any_build = link.draft.types_without_layout.iter().any(|at| at.value == *name);
        report_idle(link, name, found);
        let (sender, receiver) = (&components[from.component], &components[to.component]);
        let needs_one_build = name.is_without_layout() && !link.draft.options.any_build;
        if needs_one_build && !is_same_build(file(sender), file(receiver)) {
            let (from, to) = (&sender.name.value, &receiver.name.value);
            let message = format!(
                "the type {name} has no layout, and the programs of `{from}` and `{to}` are built differently"
            );
            let remedy = format!(
                "nothing proves that their structures are the same: derive stripline::Sample for it, or allow it by \
                 name with types-without-layout = [\"{name}\"]"
            );
            found.error(Code::TypeUnproven, link.draft.place("to"), message, remedy);
        }
    }
}

/// Warns of allowances that have no effect.
fn report_idle(link: &ResolvedConnection, name: &TypeName, found: &mut Diagnostics) {
    for at in link.draft.types_without_layout.iter().filter(|at| at.value != *name) {
        let message =
            format!("`types-without-layout` allows {}, but this connection carries {name}", at.value);
        let remedy = match at.value.as_str() == name.as_str() {
            true => "remove it: both ends compare the layout",
            false => "remove it, or write the name of the type that the connection carries",
        };
        found.push(Diagnostic::warning(Code::AllowanceIdle, &at.place, message).help(remedy));
    }
}

/// Returns the executable of a component; `None` stands for the launcher's own.
fn file<'c>(of: &'c CheckedComponent) -> Option<&'c Path> {
    of.executable.as_ref().map(|command| command.program.as_path())
}
