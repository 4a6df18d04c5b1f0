//! The registry of transports by name, and the refusal of unsupported options.

use std::sync::{PoisonError, RwLock};

use super::stream::StreamTransport;
use super::{Capabilities, Transport, inproc, mqueue, shm, tcp, udp, uds};
#[cfg(feature = "test-transports")]
use super::{lossy, multicast};
use crate::error::{Error, Result};
use crate::terms::{LinkOptions, TransportOptions};

/// The transports of this library.
static BUILT_IN: &[&dyn Transport] =
    &[&inproc::Inproc, &shm::Shm, &uds::UDS, &tcp::TCP, &mqueue::MQUEUE, &udp::UDP];

/// The transports for tests, which stand behind all others.
static FOR_TESTS: &[&dyn Transport] = &[
    #[cfg(feature = "test-transports")]
    &lossy::LOSSY,
    #[cfg(feature = "test-transports")]
    &multicast::MULTICAST,
];

/// The transports of other crates, and the transports that those crates were built without.
static REGISTERED: RwLock<Registered> = RwLock::new(Registered { transports: vec![], absent: vec![] });

struct Registered {
    transports: Vec<&'static StreamTransport>,
    absent: Vec<AbsentTransport>,
}

/// Adds transports of another crate to this process, and the transports that the crate was built
/// without. A transport with the name of an earlier one is left out.
pub fn register(transports: &[&'static StreamTransport], absent: &[AbsentTransport]) {
    // The lock comes first: several threads may register the same transports.
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let own = BUILT_IN.iter().chain(FOR_TESTS).map(|transport| transport.capabilities().name);
    let mut names: Vec<&str> =
        own.chain(registered.transports.iter().map(|transport| transport.capabilities.name)).collect();
    for transport in transports {
        let name = transport.capabilities.name;
        if !names.contains(&name) {
            registered.transports.push(transport);
            names.push(name);
        }
    }
    for new in absent {
        if !names.contains(&new.name) && !registered.absent.contains(new) {
            registered.absent.push(*new);
        }
    }
}

/// Returns all transports of this process.
fn transports() -> Vec<&'static dyn Transport> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    let registered = registered.transports.iter().map(|&transport| transport as &dyn Transport);
    BUILT_IN.iter().copied().chain(registered).chain(FOR_TESTS.iter().copied()).collect()
}

/// The word that stands for a transport's name and leaves the choice to a rule.
///
/// ```
/// use stripline::transport::{AUTO, all};
///
/// assert!(all().all(|transport| transport.name != AUTO));
/// ```
pub const AUTO: &str = "auto";

/// Returns the transport of a topic's or service's port. For [`AUTO`], this is the transport
/// between processes of one host, because the port's peers are unknown when it opens.
pub(crate) fn of_topic(name: &str) -> &str {
    if name == AUTO { "shm" } else { name }
}

/// Returns the capabilities of every transport, in the order of the registry.
///
/// ```
/// for transport in stripline::transport::all() {
///     println!("{}: {}, {}", transport.name, transport.reach, transport.summary);
/// }
/// ```
pub fn all() -> impl Iterator<Item = Capabilities> {
    transports().into_iter().map(|t| t.capabilities())
}

/// A transport that this program does not have.
///
/// ```
/// let absent = stripline::transport::absent();
/// assert!(stripline::transport::all().all(|transport| absent.iter().all(|other| other.name != transport.name)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsentTransport {
    /// The name that it will have in a waveform file.
    pub name: &'static str,
    /// A summary of one line.
    pub summary: &'static str,
    /// The step that adds the transport to a program.
    pub remedy: &'static str,
}

/// Returns the transports that this program was built without.
pub fn absent() -> Vec<AbsentTransport> {
    REGISTERED.read().unwrap_or_else(PoisonError::into_inner).absent.clone()
}

/// Returns the transport with this name.
///
/// # Errors
/// An unknown name. The message lists the transports.
pub(crate) fn find(name: &str) -> Result<&'static dyn Transport> {
    transports().into_iter().find(|t| t.capabilities().name == name).ok_or_else(|| {
        let known: Vec<&str> = all().map(|t| t.name).collect();
        let problem = match absent().iter().find(|transport| transport.name == name) {
            Some(transport) => format!("the transport `{name}` is {}", transport.remedy),
            None => format!("there is no transport `{name}`"),
        };
        Error::Configuration(format!("{problem}; use one of {}", known.join(", ")))
    })
}

/// Refuses options that a transport does not support.
///
/// ```
/// use stripline::terms::{LinkOptions, Scope};
///
/// let options = LinkOptions { scope: Scope::Target, locked: true, ..LinkOptions::default() };
/// assert!(stripline::transport::check("shm", &options).is_ok());
/// let refusal = stripline::transport::check("uds", &options).unwrap_err();
/// assert!(refusal.to_string().contains("locked"));
/// ```
///
/// # Errors
/// [`Error::Unsupported`] with the transport, the option and the alternatives.
pub fn check(name: &str, options: &LinkOptions) -> Result<()> {
    let gives = find(name)?.capabilities();
    let unsupported = |rule: String, has: Vec<&str>| Error::Unsupported {
        transport: name.into(),
        rule,
        alternatives: format!("use {}", has.join(" or ")),
    };
    for (key, wanted, has) in [
        ("scope", options.scope.as_str(), gives.scopes.iter().map(|s| s.as_str()).collect::<Vec<_>>()),
        ("overflow", options.overflow.as_str(), gives.overflows.iter().map(|o| o.as_str()).collect()),
        ("flow", options.flow.as_str(), gives.flows.iter().map(|f| f.as_str()).collect()),
    ] {
        if !has.contains(&wanted) {
            return Err(unsupported(format!("{key} {wanted}"), has));
        }
    }
    let ring: fn(&Capabilities) -> bool = |t| t.ring;
    for (asked, key, why, has) in [
        (options.huge_pages, "huge-pages", "it has no ring of memory", ring),
        (options.locked, "locked", "it has no ring of memory", ring),
        (
            options.group.is_some(),
            "group",
            "it is open to one user, or the kernel does not provide the peer's credentials",
            |t| t.groups,
        ),
    ] {
        if asked && !has(&gives) {
            let has = all().filter(has).map(|t| t.name).collect();
            return Err(unsupported(format!("{key} ({why})"), has));
        }
    }
    let udp = options.transport_options.udp.filter(|_| name == "udp");
    if let Some((rule, alternatives)) = udp.and_then(|udp| udp.conflict(options)) {
        return Err(Error::Unsupported { transport: name.into(), rule, alternatives: alternatives.into() });
    }
    let TransportOptions { zenoh, corba, .. } = options.transport_options;
    let bind = match name {
        "zenoh" => zenoh.and_then(|zenoh| zenoh.bind),
        "corba" => corba.and_then(|corba| corba.bind),
        _ => None,
    };
    if let (Some(bind), true) = (bind, options.group.is_some()) {
        let rule = format!("group with bind {bind} (the kernel does not provide the peer's credentials)");
        return Err(unsupported(rule, vec!["one of them"]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;
    use crate::sys::own_process::in_own_process;

    static TWIN: StreamTransport = StreamTransport {
        capabilities: Capabilities { name: "twin", ..StreamTransport::CAPABILITIES },
        ..StreamTransport::LOCAL
    };

    #[test]
    fn threads_that_register_one_transport_add_it_once() {
        let name = "transport::registry::tests::threads_that_register_one_transport_add_it_once";
        in_own_process(name, "twin", || {
            let absent = AbsentTransport { name: "far", summary: "elsewhere", remedy: "not here" };
            let start = Barrier::new(8);
            std::thread::scope(|scope| {
                for _ in 0..8 {
                    scope.spawn(|| {
                        start.wait();
                        register(&[&TWIN], &[absent]);
                    });
                }
            });
            assert_eq!(all().filter(|transport| transport.name == "twin").count(), 1);
            assert_eq!(super::absent(), [absent]);
        });
    }
}
