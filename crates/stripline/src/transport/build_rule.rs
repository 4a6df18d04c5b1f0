//! The rule for samples of a type without a layout: only programs of one build exchange them,
//! unless one side allows others.
//!
//! Of such a type only the name can be compared. Two programs of one build have the same structure
//! under this name. Programs of other builds may have different ones.

use serde::{Deserialize, Serialize};

use crate::packet::payload::TypeName;
use crate::sys::build::Build;

/// The part of a hello on a type without a layout. Without this part, the receiver's build is
/// unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum ReceiverBuild {
    /// The receiver allows a sender of any build.
    Any,
    Of(Build),
}

impl ReceiverBuild {
    /// Returns the part of a hello for this type. `None` for a type with a layout, and if this
    /// program's build is unknown.
    pub(crate) fn of_port(payload: &TypeName, any_build: bool) -> Option<Self> {
        match (payload.is_without_layout(), any_build) {
            (false, _) => None,
            (true, true) => Some(Self::Any),
            (true, false) => Build::own().map(Self::Of),
        }
    }

    /// Checks a receiver of this type at a sender of this program. The error is a text for the
    /// other side.
    pub(crate) fn check(receiver: Option<Self>, payload: &TypeName, any_build: bool) -> Result<(), String> {
        if any_build || !payload.is_without_layout() || receiver == Some(Self::Any) {
            return Ok(());
        }
        let differ = match receiver {
            Some(Self::Of(build)) if Build::own() == Some(build) => return Ok(()),
            Some(Self::Of(_)) if Build::own().is_some() => "the two programs are built differently",
            _ => "the build of one of the two programs is unknown",
        };
        Err(format!(
            "the type {payload} has no layout and {differ}, so that nothing proves that their structures are the same; \
             derive stripline::Sample for it, or allow it by name with types-without-layout = [\"{payload}\"]"
        ))
    }
}

impl TryFrom<String> for ReceiverBuild {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        if text == "any" { Ok(Self::Any) } else { text.parse().map(Self::Of) }
    }
}

impl From<ReceiverBuild> for String {
    fn from(build: ReceiverBuild) -> String {
        match build {
            ReceiverBuild::Any => "any".into(),
            ReceiverBuild::Of(build) => build.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> TypeName {
        TypeName::parse(text).unwrap()
    }

    #[test]
    fn a_type_without_a_layout_needs_one_build_or_an_allowance() {
        let det = name("det");
        let (own, other) =
            (ReceiverBuild::of_port(&det, false), "0123456789abcdef".to_string().try_into().ok());
        let check = |receiver, any| ReceiverBuild::check(receiver, &det, any);
        assert!(matches!(own, Some(ReceiverBuild::Of(_))));
        assert_eq!(check(own, false), Ok(()));
        assert_eq!(check(ReceiverBuild::of_port(&det, true), false), Ok(()));
        assert_eq!((check(other, true), check(None, true)), (Ok(()), Ok(())));
        let refusal = check(other, false).unwrap_err();
        for words in
            ["type det", "built differently", "derive stripline::Sample", "types-without-layout = [\"det\"]"]
        {
            assert!(refusal.contains(words), "{refusal}");
        }
        assert!(check(None, false).unwrap_err().contains("build of one of the two programs is unknown"));
    }

    #[test]
    fn all_other_types_need_nothing() {
        for text in ["f32", "det{a:u32}", "message/tune", "stripline/calls"] {
            assert_eq!(ReceiverBuild::of_port(&name(text), false), None, "{text}");
            assert_eq!(ReceiverBuild::check(None, &name(text), false), Ok(()), "{text}");
        }
    }
}
