//! The formats of other programs that components translate.

/// The wire format of another program, and the components that translate it.
///
/// ```
/// use stripline_middleware::wire_formats;
///
/// let flowgraphs = wire_formats().iter().find(|format| format.name == "gr-zeromq").unwrap();
/// assert_eq!(flowgraphs.components, ["gr-zeromq-source", "gr-zeromq-sink"]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WireFormat {
    /// The name.
    pub name: &'static str,
    /// The programs that use the wire format.
    pub summary: &'static str,
    /// The components that receive and send it.
    pub components: [&'static str; 2],
    /// The features of a Stripline connection that the wire format cannot carry.
    pub lacks: &'static str,
    /// Whether this program has the components.
    pub in_program: bool,
    /// The way to add the components to a program.
    pub remedy: &'static str,
}

/// Returns the wire formats of other programs, including those without components in this program.
///
/// ```
/// for format in stripline_middleware::wire_formats() {
///     println!("{}: {}", format.name, format.summary);
/// }
/// ```
pub fn wire_formats() -> &'static [WireFormat] {
    &[
        WireFormat {
            name: "gr-zeromq",
            summary: "flowgraphs with GNU Radio's own blocks for ZeroMQ",
            components: ["gr-zeromq-source", "gr-zeromq-sink"],
            lacks: "end of stream, acks, gaps: pub-sub loses without a report",
            in_program: cfg!(feature = "zeromq"),
            remedy: "build it with the feature `zeromq`, which takes a C++ compiler (g++)",
        },
        WireFormat {
            name: "raw",
            summary: "programs of zenoh: each payload is a packet",
            components: ["zenoh-source", "zenoh-sink"],
            lacks: "end of stream, acks, gaps, description and time of the stream",
            in_program: cfg!(feature = "zenoh"),
            remedy: "build it with the feature `zenoh`, which takes a C compiler",
        },
        WireFormat {
            name: "typed",
            summary: "DDS applications, by topics of samples in an IDL",
            components: ["dds-source", "dds-sink"],
            lacks: "end of stream, scopes above `transport`, losses before the wire",
            in_program: cfg!(feature = "dds"),
            remedy: "build it with the feature `dds`, which takes Cyclone DDS (cyclonedds-dev, cyclonedds-tools)",
        },
        WireFormat {
            name: "bulkio",
            summary: "REDHAWK and other programs with BulkIO's data ports",
            components: ["bulkio-source", "bulkio-sink"],
            lacks: "acks, gaps, scopes above `transport`; ends are of streams, not of connections",
            in_program: cfg!(feature = "corba"),
            remedy: "build it with the feature `corba`, which takes omniORB (libomniorb4-dev, omniidl)",
        },
    ]
}

#[cfg(test)]
mod tests {
    use stripline::component::Registry;

    use super::*;

    #[test]
    fn the_components_are_there_where_the_program_has_the_format() {
        let registry = crate::with_components(Registry::new());
        for format in wire_formats() {
            for name in format.components {
                assert_eq!(registry.specs().contains_key(name), format.in_program, "{name}");
            }
        }
    }
}
