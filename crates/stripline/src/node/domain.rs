//! Names of domains, and of the sockets where their nodes meet.

use crate::error::{Error, Result};
use crate::terms::Group;

/// Returns the domain named by the environment variable `STRIPLINE_DOMAIN`, or `default` if the
/// variable is unset.
///
/// # Errors
/// The value is not a valid domain name. The error names the variable.
pub(crate) fn domain_of_environment() -> Result<String> {
    const VARIABLE: &str = "STRIPLINE_DOMAIN";
    let Some(value) = std::env::var_os(VARIABLE) else { return Ok("default".into()) };
    // A value that is not UTF-8 is not a valid domain name either.
    let domain = value.to_string_lossy().into_owned();
    match check_domain(&domain) {
        Ok(()) => Ok(domain),
        Err(e) => Err(Error::failed(format!("{VARIABLE}: {e}, or unset {VARIABLE} for the default domain"))),
    }
}

/// Checks that a text is the name of a domain.
///
/// # Errors
/// The rule for names.
pub(super) fn check_domain(domain: &str) -> Result<()> {
    let is_sound = !domain.is_empty()
        && domain.len() <= 64
        && domain.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if is_sound {
        return Ok(());
    }
    Err(Error::failed(format!("`{domain}` is not a valid domain: use letters, digits, `-` and `_`")))
}

/// Returns the name of the socket where the nodes of a domain meet. The name contains the user's
/// number, or `g` and the group's number.
pub(super) fn rendezvous_name(domain: &str, group: Option<Group>) -> Result<String> {
    match group {
        None => Ok(format!("stripline-{}-{domain}", rustix::process::geteuid().as_raw())),
        // Nodes in the group would reject a process of another user outside the group.
        Some(group) if !group.has_this_process() => Err(Error::failed(format!(
            "domain `{domain}`: this process is not in its group (number {}); start it with `sg`, or add its user to \
             the group with `usermod -aG` and log in again",
            group.gid()
        ))),
        Some(group) => Ok(format!("stripline-g{}-{domain}", group.gid())),
    }
}
