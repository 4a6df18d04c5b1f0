//! Names of domains, and of the sockets where their nodes meet.

use std::ffi::OsString;

use crate::error::{Error, Result};
use crate::terms::Group;

/// Returns the domain named by the environment variable `STRIPLINE_DOMAIN`, or `default` if the
/// variable is unset.
///
/// # Errors
/// The value is not a valid domain name. The error names the variable.
pub(crate) fn domain_of_environment() -> Result<String> {
    domain_of(std::env::var_os(VARIABLE))
}

const VARIABLE: &str = "STRIPLINE_DOMAIN";

fn domain_of(value: Option<OsString>) -> Result<String> {
    let Some(value) = value else { return Ok("default".into()) };
    // A value that is not UTF-8 is not a valid domain name either.
    let domain = value.to_string_lossy().into_owned();
    match check_domain(&domain) {
        Ok(()) => Ok(domain),
        Err(e) => {
            Err(Error::Configuration(format!("{VARIABLE}: {e}, or unset {VARIABLE} for the default domain")))
        }
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
    Err(Error::InvalidArgument(format!("`{domain}` is not a valid domain: use letters, digits, `-` and `_`")))
}

/// Returns the name of the socket where the nodes of a domain meet. The name contains the user's
/// number, or `g` and the group's number.
pub(super) fn rendezvous_name(domain: &str, group: Option<Group>) -> Result<String> {
    match group {
        None => Ok(format!("stripline-{}-{domain}", rustix::process::geteuid().as_raw())),
        // Nodes in the group would reject a process of another user outside the group.
        Some(group) if !group.has_this_process() => Err(Error::Configuration(format!(
            "domain `{domain}`: this process is not in its group (number {}); start it with `sg`, or add its user to \
             the group with `usermod -aG` and log in again",
            group.gid()
        ))),
        Some(group) => Ok(format!("stripline-g{}-{domain}", group.gid())),
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::super::Topics;
    use super::*;
    use crate::error::ErrorCode;
    use crate::sys::huge_pages::{HugePages, lock_refusal};

    #[test]
    fn a_fault_outside_the_components_has_its_own_kind() {
        let pages = HugePages { size: 2 << 20, total: 0, free: 0 };
        let faults = [
            (domain_of(Some("no domain".into())).map(drop), ErrorCode::Configuration),
            (Topics::parse("[topic.x]\noverflo = 'eject'").map(drop), ErrorCode::Configuration),
            (pages.check_capacity(4096), ErrorCode::Configuration),
            (check_domain("no domain"), ErrorCode::InvalidArgument),
            (Err(lock_refusal(4096, Errno::NOMEM)), ErrorCode::System),
        ];
        for (fault, code) in faults {
            let error = fault.unwrap_err();
            assert_eq!(error.code(), code, "{error}");
        }
    }
}
