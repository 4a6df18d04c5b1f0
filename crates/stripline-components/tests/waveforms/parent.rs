//! A component that starts a program.

use std::process::{Command, Stdio};

use stripline::component::{Component, ComponentSpec, Ports, Properties, PropertySpec};
use stripline::{Error, Result};

/// A component that starts a program, and writes the inheritance of the program to a file: the
/// names of variables and the open descriptors.
pub struct Parent {
    path: String,
}

impl Component for Parent {
    fn describe() -> ComponentSpec {
        let path = PropertySpec::path("path", "file to write").required();
        ComponentSpec::new("parent", "Starts a program.").property(path)
    }

    fn new(properties: &Properties) -> Result<Self> {
        Ok(Self { path: properties.text("path").into() })
    }

    fn run(self, _: Ports) -> Result<()> {
        std::fs::write(self.path, inherited()?).map_err(|e| Error::failed(e.to_string()))
    }
}

/// Returns the names of variables and the open descriptors that a child of this process inherits.
pub fn inherited() -> Result<String> {
    let mut child = Command::new("sh");
    child.args(["-c", "env | cut -d= -f1; ls -l /proc/self/fd"]).stdin(Stdio::null());
    let output = child.output().map_err(|e| Error::failed(e.to_string()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
