//! DDS Security of Cyclone DDS: the files of a participant, and the plugins of the library.

use std::ffi::{CStr, CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use stripline_dds_sys as sys;

/// The folders of the plugins, relative to the library: the library's folder, and Debian's folder
/// for plugins.
const PLUGIN_FOLDERS: [&str; 2] = [".", "libddsc0debian"];
/// The plugins: the property, the file, and the last part of the names of the plugin's functions.
const PLUGINS: [(&str, &str, &str); 3] = [
    ("dds.sec.auth.library", "libdds_security_auth.so", "authentication"),
    ("dds.sec.access.library", "libdds_security_ac.so", "access_control"),
    ("dds.sec.crypto.library", "libdds_security_crypto.so", "crypto"),
];
/// The properties with files, as named in DDS Security 1.1 (OMG formal/2018-04-01). The files have
/// the names of an enclave of ROS 2.
const FILES: [(&str, &str); 6] = [
    ("dds.sec.auth.identity_ca", "identity_ca.cert.pem"),
    ("dds.sec.auth.identity_certificate", "cert.pem"),
    ("dds.sec.auth.private_key", "key.pem"),
    ("dds.sec.access.permissions_ca", "permissions_ca.cert.pem"),
    ("dds.sec.access.governance", "governance.p7s"),
    ("dds.sec.access.permissions", "permissions.p7s"),
];

/// Returns whether the Cyclone DDS of this program has the plugins of DDS Security.
pub fn has_security() -> bool {
    plugins().is_some()
}

/// A folder with a participant's files of DDS Security. ROS 2 calls it an enclave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DdsEnclave(PathBuf);

impl DdsEnclave {
    /// Wraps a folder. The files are read when a participant is made.
    pub fn new(folder: &Path) -> Self {
        Self(folder.into())
    }

    /// Returns the properties of a participant.
    ///
    /// # Errors
    /// A file cannot be read, or the library has no plugins.
    pub(super) fn properties(&self) -> Result<Vec<[CString; 2]>, String> {
        let plugins = plugins().ok_or("this Cyclone DDS has no plugins of DDS Security")?;
        let mut properties = Vec::new();
        let mut add = |name: &str, value: &OsStr| {
            let value = CString::new(value.as_bytes()).map_err(|e| e.to_string())?;
            properties.push([CString::new(name).map_err(|e| e.to_string())?, value]);
            Ok::<_, String>(())
        };
        for (property, file, function) in PLUGINS {
            add(&format!("{property}.path"), plugins.join(file).as_os_str())?;
            add(&format!("{property}.init"), format!("init_{function}").as_ref())?;
            add(&format!("{property}.finalize"), format!("finalize_{function}").as_ref())?;
        }
        for (property, file) in FILES {
            let path = self.0.join(file);
            // An error of the library does not name the file that it cannot read.
            std::fs::File::open(&path).map_err(|e| format!("cannot read {}: {e}", path.display()))?;
            let mut value = std::ffi::OsString::from("file:");
            value.push(path);
            add(property, &value)?;
        }
        Ok(properties)
    }
}

impl std::fmt::Display for DdsEnclave {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.display().fmt(f)
    }
}

/// Returns the folder of the plugins; `None`: they are not installed.
fn plugins() -> Option<PathBuf> {
    // SAFETY: the function returns null or a text that is never freed.
    let library = unsafe { sys::stripline_dds_library().as_ref().map(|text| CStr::from_ptr(text)) }?;
    let folder = Path::new(OsStr::from_bytes(library.to_bytes())).parent()?;
    let folders = PLUGIN_FOLDERS.iter().map(|name| folder.join(name));
    folders.into_iter().find(|folder| PLUGINS.iter().all(|(_, file, _)| folder.join(file).exists()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_missing_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let enclave = DdsEnclave::new(folder.path());
        if !has_security() {
            assert!(enclave.properties().unwrap_err().contains("no plugins"));
            return;
        }
        for (_, file) in FILES {
            assert!(enclave.properties().unwrap_err().contains(file));
            std::fs::write(folder.path().join(file), "").unwrap();
        }
        let properties = enclave.properties().unwrap();
        assert_eq!(properties.len(), 3 * PLUGINS.len() + FILES.len());
        let value = |name: &str| {
            let found = properties.iter().find(|[property, _]| property.to_str() == Ok(name)).unwrap();
            found[1].to_str().unwrap().to_owned()
        };
        assert!(value("dds.sec.auth.library.path").ends_with("/libdds_security_auth.so"));
        assert_eq!(value("dds.sec.access.library.init"), "init_access_control");
        let governance = value("dds.sec.access.governance");
        assert_eq!(governance, format!("file:{}/governance.p7s", folder.path().display()));
    }
}
