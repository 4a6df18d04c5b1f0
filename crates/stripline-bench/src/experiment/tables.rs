//! The tables of an experiment file as written: the keys, and the kind of each value.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;

use serde::de::{self, IntoDeserializer, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use toml::Spanned;

/// The maximum number of values of a key.
const VALUES_MAX: usize = 64;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub experiment: Head,
    pub quick: Option<Quick>,
    pub default: Option<Keys>,
    #[serde(default)]
    pub case: Vec<Spanned<Keys>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Head {
    pub name: Spanned<String>,
    pub title: Option<Spanned<String>>,
    pub source: Option<Spanned<String>>,
    pub repeats: Option<Spanned<i64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Quick {
    pub packets: Option<Spanned<i64>>,
    pub repeats: Option<Spanned<i64>>,
}

/// The keys of a case, or of the defaults.
#[derive(Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct Keys {
    pub name: Option<Spanned<String>>,
    pub title: Option<Spanned<String>>,
    pub stages: Option<Many<i64>>,
    pub packets: Option<Many<i64>>,
    pub size: Option<Many<i64>>,
    #[serde(rename = "type")]
    pub element: Option<Many<String>>,
    pub work: Option<Many<String>>,
    pub work_ms: Option<Many<f64>>,
    pub pace_ms: Option<Many<f64>>,
    pub scope: Option<Many<String>>,
    pub dispatch: Option<Many<String>>,
    pub order: Option<Many<String>>,
    pub window: Option<Many<i64>>,
    pub skip_after_ms: Option<Many<f64>>,
    pub transport: Option<Many<String>>,
    pub placement: Option<Many<String>>,
    pub target: Option<TargetTable>,
    pub published: Option<PublishedTable>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TargetTable {
    pub over_ideal: Option<Spanned<f64>>,
    pub reordered: Option<Spanned<i64>>,
    pub reordered_share_min: Option<Spanned<f64>>,
    pub over_case: Option<OverCase>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverCase {
    pub case: Spanned<String>,
    pub ratio: Spanned<f64>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct PublishedTable {
    pub last_ms: Option<Many<f64>>,
    pub reordered: Option<Many<i64>>,
    pub ideal_ms: Option<Spanned<f64>>,
    pub sends: Option<Spanned<String>>,
}

/// A value and the place in the file.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct At<T> {
    pub value: T,
    pub span: Range<usize>,
}

impl<T> From<Spanned<T>> for At<T> {
    fn from(spanned: Spanned<T>) -> Self {
        let span = spanned.span();
        Self { value: spanned.into_inner(), span }
    }
}

/// A single value or a list of values.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Many<T>(pub Vec<At<T>>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Many<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let either = At::from(Spanned::<Either<T>>::deserialize(deserializer)?);
        Ok(Self(match either.value {
            Either::One(value) => vec![At { value, span: either.span }],
            Either::List(list) => list,
        }))
    }
}

enum Either<T> {
    One(T),
    List(Vec<At<T>>),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Either<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EitherVisitor(PhantomData))
    }
}

struct EitherVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for EitherVisitor<T> {
    type Value = Either<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value or a list of values")
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Either::One)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Either::One)
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Either::One)
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Either::One)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element::<Spanned<T>>()? {
            if values.len() == VALUES_MAX {
                return Err(de::Error::custom(format!("a list has at most {VALUES_MAX} values")));
            }
            values.push(At::from(value));
        }
        if values.is_empty() {
            return Err(de::Error::custom("this list has no value"));
        }
        Ok(Either::List(values))
    }
}
