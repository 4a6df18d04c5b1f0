//! The trait of types with a schema, with which the structure of messages can be compared.

use std::collections::{BTreeMap, HashMap};

use super::schema::Schema;

/// A type with a [`Schema`], so that its structure is compared before the first message.
///
/// Implemented for numbers, `bool`, `char`, `String` and `()`; and for `Option`, `Box`, `Vec`,
/// arrays, tuples of up to 8 and maps of such types. A component derives it for other types:
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use stripline::payload::{MessageSchema, TypeName};
///
/// #[derive(Serialize, Deserialize, stripline::Message)]
/// struct Detection { range_bin: u32, note: Option<String> }
///
/// assert_eq!(Detection::schema().as_str(), "detection{range_bin:u32,note:text?}");
/// let text = "message/detection{range_bin:u32,note:text?}";
/// assert_eq!(TypeName::of_message::<Detection>().full_text(), text);
/// ```
///
/// Implement it by hand for a type that the derive cannot describe, or that contains itself. The
/// text must match the CBOR that serde makes (`docs/layouts.md`):
///
/// ```
/// use stripline::payload::{MessageSchema, Schema};
///
/// struct Tree { level: f32, children: Vec<Tree> }
///
/// impl MessageSchema for Tree {
///     fn schema() -> Schema {
///         "tree{level:f32,children:any[]}".parse().expect("a schema")
///     }
/// }
/// assert_eq!(Tree::schema().name(), Some("tree"));
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no schema",
    note = "derive `stripline::Message` for it, or implement `stripline::payload::MessageSchema` by hand",
    note = "a port without a schema takes any type with serde's `Serialize` and `Deserialize`"
)]
pub trait MessageSchema {
    /// Returns the structure of the type as a message.
    fn schema() -> Schema;
}

macro_rules! built_in {
    ($($type:ty => $name:literal,)*) => {$(
        impl MessageSchema for $type {
            fn schema() -> Schema { Schema::built_in($name) }
        }
    )*};
}

built_in! {
    u8 => "u8", u16 => "u16", u32 => "u32", u64 => "u64", usize => "u64",
    i8 => "s8", i16 => "s16", i32 => "s32", i64 => "s64", isize => "s64",
    f32 => "f32", f64 => "f64", bool => "bool", char => "text", String => "text", () => "null",
}

impl<M: MessageSchema> MessageSchema for Option<M> {
    fn schema() -> Schema {
        M::schema().optional()
    }
}

impl<M: MessageSchema> MessageSchema for Box<M> {
    fn schema() -> Schema {
        M::schema()
    }
}

impl<M: MessageSchema> MessageSchema for Vec<M> {
    fn schema() -> Schema {
        M::schema().list(None)
    }
}

impl<M: MessageSchema, const N: usize> MessageSchema for [M; N] {
    fn schema() -> Schema {
        M::schema().list(Some(N))
    }
}

impl<K: MessageSchema, V: MessageSchema> MessageSchema for BTreeMap<K, V> {
    fn schema() -> Schema {
        Schema::map(&K::schema(), &V::schema())
    }
}

impl<K: MessageSchema, V: MessageSchema, S> MessageSchema for HashMap<K, V, S> {
    fn schema() -> Schema {
        Schema::map(&K::schema(), &V::schema())
    }
}

macro_rules! tuples {
    ($($($of:ident)*;)*) => {$(
        impl<$($of: MessageSchema),*> MessageSchema for ($($of,)*) {
            fn schema() -> Schema { Schema::tuple(&[$($of::schema()),*]) }
        }
    )*};
}

tuples! { A; A B; A B C; A B C D; A B C D E; A B C D E F; A B C D E F G; A B C D E F G H; }
