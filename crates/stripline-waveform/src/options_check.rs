//! The check that the options of a connection fit each other and the scope of the output.

use std::collections::BTreeMap;

use stripline::terms::{LinkOptions, Overflow, Scope};

use super::connections::{ConnectionEnd, ResolvedConnection};
use super::diagnostics::{Code, Diagnostic, Diagnostics};

/// Warns about every option that has no effect beside the others, and about a receiver that drops
/// packets while the sender waits for it anyway.
pub(super) fn check(links: &[ResolvedConnection], found: &mut Diagnostics) {
    if found.has_errors() {
        // An option that could not be read has the default value here.
        return;
    }
    // An output uses the strongest scope of its connections for all of them.
    let mut strongest: BTreeMap<ConnectionEnd, &ResolvedConnection> = BTreeMap::new();
    for link in links {
        if let Some(from) = link.from {
            let known = strongest.entry(from).or_insert(link);
            if link.draft.options.scope > known.draft.options.scope {
                *known = link;
            }
        }
    }
    for link in links {
        without_effect(link, found);
        if let Some(strongest) = link.from.and_then(|from| strongest.get(&from)) {
            drops_and_is_awaited(link, strongest, found);
        }
    }
}

fn without_effect(link: &ResolvedConnection, found: &mut Diagnostics) {
    let LinkOptions { overflow, scope, .. } = link.draft.options;
    let mut warn = |key: &str, message: String, remedy: String| {
        if let Some(place) = link.draft.places.get(key) {
            found.push(Diagnostic::warning(Code::OptionIdle, place, message).help(remedy));
        }
    };
    if scope < Scope::Server {
        let message =
            format!("`deadline-ms` limits the wait for acknowledgements, but scope = \"{scope}\" has none");
        let remedy = "add scope = \"server\" or \"target\" to this connection, or remove `deadline-ms`";
        warn("deadline-ms", message, remedy.into());
    }
    if overflow != Overflow::Block {
        let message =
            format!("`send-timeout-ms` limits the wait for room, but overflow = \"{overflow}\" has none");
        let remedy = "write overflow = \"block\", or remove `send-timeout-ms`";
        warn("send-timeout-ms", message, remedy.into());
    }
}

fn drops_and_is_awaited(link: &ResolvedConnection, strongest: &ResolvedConnection, found: &mut Diagnostics) {
    let (overflow, scope) = (link.draft.options.overflow, strongest.draft.options.scope);
    if overflow == Overflow::Block || scope < Scope::Server {
        return;
    }
    let (message, effect) = match scope {
        Scope::Target => (
            format!(
                "overflow = \"{overflow}\" has no effect: scope = \"target\" waits for this receiver, too"
            ),
            "write overflow = \"block\"",
        ),
        // The dropped packet was already in the queue, so the send of that packet had succeeded.
        _ if overflow == Overflow::DropOldest => return,
        _ => (
            format!("with overflow = \"{overflow}\" and scope = \"server\", a full queue fails the send"),
            "most components end on that error; write overflow = \"block\" or \"drop-oldest\"",
        ),
    };
    let remedy = format!("{effect}, or a weaker scope than \"{scope}\" for all connections of this output");
    let place = link.draft.place("overflow");
    let mut warning = Diagnostic::warning(Code::ScopeUnfit, place, message).help(remedy);
    if !std::ptr::eq(link, strongest) {
        warning = warning.also(strongest.draft.place("scope"), "the scope of the whole output");
    }
    found.push(warning);
}
