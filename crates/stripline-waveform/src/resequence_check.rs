//! The check that resequencing has an effect and that the window is sufficient.

use std::collections::BTreeSet;

use stripline::node::{Completion, Dispatch};

use super::components::CheckedComponent;
use super::connections::ResolvedConnection;
use super::diagnostics::{Code, Diagnostic, Diagnostics};
use super::text::listed;

/// The components that may have changed the order of the packets of a connection.
enum Before<'c> {
    /// These pools. Each has the name of a component and the number of threads.
    Pools(Vec<(&'c str, usize)>),
    /// An executable of the user with an unknown number of threads.
    Unknown,
}

/// Warns about every `resequence` that has no effect, or has a smaller window than the pools before
/// it need.
pub(super) fn check(links: &[ResolvedConnection], components: &[CheckedComponent], found: &mut Diagnostics) {
    for link in links {
        let (Some(resequence), Some(from)) = (link.draft.options.resequence, link.from) else { continue };
        let Before::Pools(pools) = before(from.component, links, components) else { continue };
        let (window, place) = (resequence.window(), link.draft.place("resequence"));
        if pools.is_empty() {
            let message = "nothing before this connection changes the order of its packets";
            let warning = Diagnostic::warning(Code::ResequenceIdle, place, message);
            found.push(warning.help(
                "remove `resequence`; it is for packets behind a component with dispatch = \"pool(N)\"",
            ));
            continue;
        }
        let threads = pools.iter().map(|(_, threads)| *threads).max().unwrap_or_default();
        if window < threads {
            let names = listed(pools.iter().map(|(name, _)| *name), "and");
            let has = if pools.len() == 1 { "has" } else { "have up to" };
            let message = format!(
                "`window` is {window}, but {names} {has} {threads} threads: packets behind a slow one soon are too many"
            );
            let remedy = format!(
                "make it {threads} at the very least, and many times that where some packets take much longer than \
                 others"
            );
            found.push(Diagnostic::warning(Code::WindowSmall, place, message).help(remedy));
        }
    }
}

/// Returns the pools between the outputs of a component and the last point at which the packets
/// were in sequence.
fn before<'c>(
    component: usize,
    links: &[ResolvedConnection],
    components: &'c [CheckedComponent],
) -> Before<'c> {
    let (mut pools, mut seen, mut next) = (Vec::new(), BTreeSet::new(), vec![component]);
    while let Some(index) = next.pop() {
        if !seen.insert(index) {
            continue;
        }
        let component = &components[index];
        if component.executable.is_some() || component.spec.is_none() {
            return Before::Unknown;
        }
        if let Dispatch::Pool { threads: threads @ 2.., order: Completion::Any } = component.dispatch {
            pools.push((component.name.value.as_str(), threads));
        }
        let inputs = links.iter().filter(|link| link.to.is_some_and(|to| to.component == index));
        let out_of_sequence = inputs.filter(|link| link.draft.options.resequence.is_none());
        next.extend(out_of_sequence.filter_map(|link| Some(link.from?.component)));
    }
    pools.sort_unstable();
    Before::Pools(pools)
}
