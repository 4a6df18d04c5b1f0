//! Values that a component publishes while it runs.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::{Access, ComponentSpec, PropertyKind, Value};
use crate::sys::fork::LocalMutex;
use crate::sys::mutex::lock;

/// The longest text, in bytes.
const TEXT_MAX: usize = 4096;

/// A read-only property set by the component. `stripline get` prints the last value. Setting a
/// number is one relaxed store ([`Status::add`]: one atomic addition), so a counter can be set with
/// every packet. A store wakes no thread. Setting a text takes a lock and may allocate. Copies
/// write the same value.
///
/// A value outside the property's range is reported as unknown.
///
/// ```no_run
/// # fn run(mut ports: stripline::component::Ports) -> stripline::Result<()> {
/// let frames = ports.status::<u64>("frames")?;
/// let level = ports.status::<f64>("level")?;
/// let state = ports.status::<String>("state")?;
/// let mut input = ports.input::<f32>("in")?;
/// state.set("searching".into());
/// while let Some(packet) = input.receive()? {
///     frames.add(1);
///     level.set(packet.iter().map(|x| f64::from(x * x)).sum::<f64>());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Status<T> {
    slot: Arc<StatusEntry>,
    kind: PhantomData<fn(T)>,
}

impl<T> Clone for Status<T> {
    fn clone(&self) -> Self {
        Self { slot: Arc::clone(&self.slot), kind: PhantomData }
    }
}

impl<T: StatusValue> Status<T> {
    /// Sets the value.
    pub fn set(&self, value: T) {
        value.store(&self.slot.slot);
    }
}

impl Status<u64> {
    /// Adds to the value. Several threads may call this at once.
    pub fn add(&self, count: u64) {
        self.slot.slot.bits.fetch_add(count, Ordering::Relaxed);
    }
}

/// A type that a [`Status`] can have: `bool`, `i64`, `u64`, `f64`, `String`.
///
/// ```
/// fn is_status<T: stripline::component::StatusValue>() {}
/// is_status::<u64>();
/// is_status::<String>();
/// ```
pub trait StatusValue: sealed::Sealed {
    #[doc(hidden)]
    fn store(self, place: &StatusSlot);
    #[doc(hidden)]
    fn load(place: &StatusSlot) -> Option<Value>;
    #[doc(hidden)]
    fn fits(kind: &PropertyKind) -> bool;
}

/// The storage of a value.
#[doc(hidden)]
#[derive(Default)]
pub struct StatusSlot {
    bits: AtomicU64,
    text: LocalMutex<String>,
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for bool {}
    impl Sealed for i64 {}
    impl Sealed for u64 {}
    impl Sealed for f64 {}
    impl Sealed for String {}
}

// Relaxed everywhere: each value is independent, and a reader may get a slightly older value.
macro_rules! number {
    ($type:ty, $kind:pat, $to:expr, $from:expr) => {
        impl StatusValue for $type {
            fn store(self, slot: &StatusSlot) {
                slot.bits.store($to(self), Ordering::Relaxed);
            }

            fn load(slot: &StatusSlot) -> Option<Value> {
                $from(slot.bits.load(Ordering::Relaxed))
            }

            fn fits(kind: &PropertyKind) -> bool {
                matches!(kind, $kind)
            }
        }
    };
}

number!(bool, PropertyKind::Boolean, u64::from, |bits| Some(Value::Boolean(bits != 0)));
number!(i64, PropertyKind::Integer { .. }, i64::cast_unsigned, |bits: u64| {
    Some(Value::Integer(bits.cast_signed()))
});
number!(u64, PropertyKind::Integer { .. }, |n: u64| n, |bits| i64::try_from(bits).ok().map(Value::Integer));
number!(f64, PropertyKind::Float { .. }, f64::to_bits, |bits| Some(Value::Float(f64::from_bits(bits))));

impl StatusValue for String {
    fn store(mut self, place: &StatusSlot) {
        let end = (0..=self.len().min(TEXT_MAX)).rev().find(|at| self.is_char_boundary(*at));
        self.truncate(end.unwrap_or(0));
        // A forked child sets nothing in the parent's status.
        if let Some(mut text) = place.text.lock() {
            *text = self;
        }
    }

    fn load(place: &StatusSlot) -> Option<Value> {
        Some(Value::Text(place.text.lock()?.clone()))
    }

    fn fits(kind: &PropertyKind) -> bool {
        matches!(kind, PropertyKind::Text | PropertyKind::Choice { .. } | PropertyKind::Path)
    }
}

struct StatusEntry {
    slot: StatusSlot,
    /// The function that reads the value as the type that the component chose.
    load: Mutex<Option<Load>>,
}

type Load = fn(&StatusSlot) -> Option<Value>;

/// The read-only properties of one component.
pub(super) struct Statuses(BTreeMap<String, Arc<StatusEntry>>);

impl Statuses {
    pub(super) fn new(spec: &ComponentSpec) -> Self {
        let read_only = spec.properties.iter().filter(|property| property.access == Access::ReadOnly);
        let slot = || Arc::new(StatusEntry { slot: StatusSlot::default(), load: Mutex::new(None) });
        Self(read_only.map(|property| (property.name.clone(), slot())).collect())
    }

    /// Returns the status of a read-only property.
    ///
    /// # Errors
    /// The reason why there is no such status.
    pub(super) fn take<T: StatusValue>(
        &self,
        spec: &ComponentSpec,
        name: &str,
    ) -> Result<Status<T>, &'static str> {
        let property = spec.find_property(name).ok_or("is not declared")?;
        let slot = self.0.get(name).ok_or("is not declared as read-only")?;
        if !T::fits(&property.kind) {
            return Err("is declared with another type");
        }
        let mut load = lock(&slot.load);
        if load.is_none() {
            match &property.default {
                Some(Value::Boolean(value)) => value.store(&slot.slot),
                Some(Value::Integer(value)) => value.store(&slot.slot),
                Some(Value::Float(value)) => value.store(&slot.slot),
                Some(Value::Text(value)) => value.clone().store(&slot.slot),
                None => {}
            }
        }
        *load = Some(T::load);
        Ok(Status { slot: Arc::clone(slot), kind: PhantomData })
    }

    /// Returns the current values. A value that does not fit the property is `None`.
    pub(super) fn values(&self, spec: &ComponentSpec) -> Vec<(String, Option<Value>)> {
        let value = |(name, slot): (&String, &Arc<StatusEntry>)| {
            let property = spec.find_property(name)?;
            let load = *lock(&slot.load);
            let said = match load {
                Some(load) => load(&slot.slot),
                None => property.default.clone(),
            };
            Some((name.clone(), said.and_then(|value| property.check(&value).ok())))
        };
        self.0.iter().filter_map(value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::PropertySpec;
    use super::*;

    #[test]
    fn a_status_reports_the_last_value_and_an_invalid_value_as_unknown() {
        let spec = ComponentSpec::new("x", "")
            .property(PropertySpec::integer("count", 3, 0, i64::MAX, "").read_only())
            .property(PropertySpec::float("level", 0.0, "").range(0.0, 1.0).read_only())
            .property(PropertySpec::text("state", "idle", "").read_only())
            .property(PropertySpec::boolean("locked", true, "").read_only())
            .property(PropertySpec::boolean("fixed", true, ""));
        let statuses = Statuses::new(&spec);
        let value =
            |name: &str| statuses.values(&spec).into_iter().find(|(known, _)| known == name).unwrap().1;
        let count = statuses.take::<u64>(&spec, "count").unwrap();
        assert_eq!(value("count"), Some(Value::Integer(3)));
        count.add(4);
        count.clone().add(1);
        assert_eq!(value("count"), Some(Value::Integer(8)));
        count.set(u64::MAX);
        assert_eq!(value("count"), None);
        let level = statuses.take::<f64>(&spec, "level").unwrap();
        for (said, registered) in [(0.5, Some(Value::Float(0.5))), (f64::NAN, None), (2.0, None)] {
            level.set(said);
            assert_eq!(value("level"), registered);
        }
        let state = statuses.take::<String>(&spec, "state").unwrap();
        state.set("ü".repeat(TEXT_MAX));
        assert_eq!(value("state"), Some(Value::Text("ü".repeat(TEXT_MAX / 2))));
        assert_eq!(value("locked"), Some(Value::Boolean(true)));
        assert_eq!(statuses.values(&spec).len(), 4);
        assert!(statuses.take::<f64>(&spec, "count").is_err());
        assert!(statuses.take::<bool>(&spec, "fixed").is_err());
        assert!(statuses.take::<bool>(&spec, "none").is_err());
    }
}
