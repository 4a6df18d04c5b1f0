//! Conditions on the features of this crate, for the tests of crates that have no such features.

/// Defines a macro for each feature. The macro expands to the given code if this build has the
/// feature, and otherwise to nothing.
macro_rules! conditions {
    ($dollar:tt $($name:ident $feature:literal)*) => {$(
        #[cfg(feature = $feature)]
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $name { ($dollar($dollar code:tt)*) => { $dollar($dollar code)* }; }
        #[cfg(not(feature = $feature))]
        #[doc(hidden)]
        #[macro_export]
        macro_rules! $name { ($dollar($dollar code:tt)*) => {}; }
    )*};
}

conditions! { $ if_zeromq "zeromq" if_iceoryx2 "iceoryx2" if_zenoh "zenoh" if_dds "dds" if_corba "corba" }
