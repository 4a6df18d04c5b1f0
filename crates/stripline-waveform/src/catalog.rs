//! The component types and transports that a waveform may name.

use std::collections::BTreeMap;

use stripline::component::{ComponentSpec, InvalidProperties, Properties};

use super::describe::{DescribeError, ExecutableSpecs, ask_validity, describe};
use super::program_command::ProgramCommand;

/// The launcher's catalog: the stock components, the transports, and the functions that query an
/// executable.
///
/// ```
/// use stripline::component::{ComponentSpec, PortTypes};
/// use stripline_waveform::{Catalog, DescribeError, ProgramCommand};
///
/// let null = ComponentSpec::new("null", "Takes anything.").input("in", PortTypes::Any, "anything");
/// let components = [(null.name.clone(), null)].into();
/// // Where no program may run, as in an editor, no executable is queried.
/// let ask_nobody = |command: &ProgramCommand| Err(DescribeError::Missing(command.clone()));
/// let catalog = Catalog { describe: ask_nobody, ..Catalog::new(&components, &["inproc", "shm"]) };
/// assert!(catalog.components.contains_key("null"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Catalog<'a> {
    /// The stock components by type name.
    pub components: &'a BTreeMap<String, ComponentSpec>,
    /// The stock components that this program was built without: the type name, and how to get
    /// each.
    pub absent: &'a [(&'a str, &'a str)],
    /// The names of the transports.
    pub transports: &'a [&'a str],
    /// Returns the specifications of an executable. [`Catalog::new`] sets a function that runs the
    /// executable with `--describe`.
    pub describe: fn(&ProgramCommand) -> Result<ExecutableSpecs, DescribeError>,
    /// Lets an executable check the properties of a component type. [`Catalog::new`] sets a
    /// function that runs the executable with `--check`.
    pub ask_validity:
        fn(&ProgramCommand, &str, &Properties) -> Result<Option<InvalidProperties>, DescribeError>,
}

impl<'a> Catalog<'a> {
    /// Creates a catalog that queries executables by running them.
    pub fn new(components: &'a BTreeMap<String, ComponentSpec>, transports: &'a [&'a str]) -> Self {
        Self { components, absent: &[], transports, describe, ask_validity }
    }
}
