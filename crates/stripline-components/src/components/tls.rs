//! The properties of TLS that components over other middleware have in common.

use stripline::component::PropertySpec;

/// Returns them: the files `ca`, `certificate` and `private_key`.
pub(super) fn properties() -> [PropertySpec; 3] {
    [
        PropertySpec::text("ca", "", "file with the certificate that those of peers are checked by (tls)"),
        PropertySpec::text("certificate", "", "file with the own certificate (tls)"),
        PropertySpec::text("private_key", "", "file with the key of that (tls)"),
    ]
}
