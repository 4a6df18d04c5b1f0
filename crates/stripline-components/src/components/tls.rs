//! The TLS properties shared by components over other middleware.

use stripline::component::PropertySpec;

/// Returns the properties: the files `ca`, `certificate` and `private_key`.
pub(super) fn properties() -> [PropertySpec; 3] {
    [
        PropertySpec::text("ca", "", "file with the certificate that those of peers are checked by (tls)"),
        PropertySpec::text("certificate", "", "file with the own certificate (tls)"),
        PropertySpec::text("private_key", "", "file with the key of that (tls)"),
    ]
}
