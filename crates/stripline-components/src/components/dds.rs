//! Common parts of `dds-source` and `dds-sink`: properties, and the topic.

use std::time::Duration;

use num_complex::Complex;
use stripline::Result;
use stripline::component::{InvalidProperties, Properties, PropertySpec, Value};
use stripline::payload::TypeName;
use stripline_middleware::internal::{DdsEnclave, DdsPlace, DdsSampleType, DdsTerms, dds_has_security};

/// The types of samples, each with a type in the IDL.
pub(super) const TYPES: [&str; 5] = ["cf32", "f32", "cs16", "s16", "u8"];
/// Returns the names of the types, for a port.
pub(super) fn type_names() -> Vec<TypeName> {
    vec![
        TypeName::of::<Complex<f32>>(),
        TypeName::of::<f32>(),
        TypeName::of::<Complex<i16>>(),
        TypeName::of::<i16>(),
        TypeName::of::<u8>(),
    ]
}

/// The time between two checks of the stop signal.
pub(super) const STOP_CHECK: Duration = Duration::from_millis(20);
/// The choices of `durability`.
const VOLATILE: &str = "volatile";
const TRANSIENT_LOCAL: &str = "transient-local";

/// Returns the properties of both components.
pub(super) fn properties() -> [PropertySpec; 10] {
    [
        PropertySpec::text("topic", "", "name of the topic")
            .required()
            .example(Value::Text("samples".into())),
        PropertySpec::integer("domain", 0, 0, 232, "number of the DDS domain"),
        PropertySpec::text("interface", "lo", "network interface; `lo` stays on this host"),
        PropertySpec::text(
            "peers",
            "",
            "addresses where others are searched for, with commas; empty: by multicast",
        ),
        PropertySpec::boolean(
            "reliable",
            true,
            "whether every message arrives, and a writer waits for its readers",
        ),
        PropertySpec::choice(
            "durability",
            &[VOLATILE, TRANSIENT_LOCAL],
            VOLATILE,
            "transient-local: what was written before a reader came is for it, too",
        ),
        PropertySpec::integer(
            "depth",
            64,
            1,
            65_536,
            "messages kept for late readers, and waiting in a reader",
        ),
        PropertySpec::float(
            "deadline",
            0.0,
            "longest time between two messages, offered or asked for; 0: any",
        )
        .range(0.0, 86_400.0)
        .unit("s"),
        PropertySpec::text(
            "security",
            "",
            "folder with the files of DDS Security, as an enclave of ROS 2 has them; empty: none",
        ),
        PropertySpec::boolean(
            "insecure",
            false,
            "whether to leave this host, without authentication or encryption",
        ),
    ]
}

/// Checks the properties without a participant.
pub(super) fn check(properties: &Properties) -> Result<()> {
    let refuse = |property: &str, problem: String, remedy: &str| {
        Err(InvalidProperties::new(problem).property(property).remedy(remedy).into())
    };
    let topic = properties.text("topic");
    let is_name = topic.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && topic.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_/".contains(&byte));
    if !is_name {
        let problem = format!("`{topic}` is no name of a topic");
        return refuse("topic", problem, "begin it with a letter, and use letters, digits, `_` and `/`");
    }
    let place = place(properties);
    if let Err(problem) = place.check() {
        return refuse("interface", problem, "use the name of an interface, and addresses as 192.0.2.7");
    }
    if place.stays() && !place.peers.is_empty() {
        return refuse(
            "peers",
            "`peers` are set, and `lo` reaches none".into(),
            "set `interface`, or no `peers`",
        );
    }
    if place.security.is_some() && !dds_has_security() {
        return refuse(
            "security",
            "DDS Security is asked for, and this Cyclone DDS has no plugins for it".into(),
            "install one that has libdds_security_auth.so (Debian: libddsc0debian)",
        );
    }
    if !place.stays() && place.security.is_none() && !properties.boolean("insecure") {
        return refuse(
            "interface",
            format!("`{}` leaves this host, and nothing is authenticated or encrypted", place.interface),
            "use lo, name the files of DDS Security in `security`, or set `insecure` to true",
        );
    }
    Ok(())
}

/// Returns the place of the topic.
pub(super) fn place(properties: &Properties) -> DdsPlace {
    let peers = properties.text("peers").split(',').map(str::trim).filter(|peer| !peer.is_empty());
    DdsPlace {
        domain: u32::try_from(properties.count("domain")).unwrap_or(u32::MAX),
        interface: properties.text("interface").into(),
        peers: peers.map(String::from).collect(),
        security: Some(properties.text("security"))
            .filter(|folder| !folder.is_empty())
            .map(|folder| DdsEnclave::new(folder.as_ref())),
    }
}

/// Returns the terms of an end.
pub(super) fn terms(properties: &Properties) -> DdsTerms {
    let deadline = properties.float("deadline");
    DdsTerms {
        is_transient_local: properties.text("durability") == TRANSIENT_LOCAL,
        is_reliable: properties.boolean("reliable"),
        depth: u32::try_from(properties.count("depth")).unwrap_or(u32::MAX),
        deadline: (deadline > 0.0).then(|| Duration::from_secs_f64(deadline)),
    }
}

/// Returns the IDL type for a type of samples; `None`: the IDL has no such type.
pub(super) fn type_of(samples: &str) -> Option<DdsSampleType> {
    DdsSampleType::of_samples(samples)
}
