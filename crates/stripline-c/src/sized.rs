//! Structures that may grow: their first member is the size that the program was compiled with.

use std::ptr;

use crate::border::{Out, Ref};
use crate::error::{Failure, missing};
use crate::status::Status;

/// A structure with its size as the first member. Later versions may have more members.
///
/// # Safety
/// The structure must be `repr(C)` and begin with a `usize`, and zero must be a valid value of each
/// member. `ENDS` must have the offset of the end of each member, in order.
pub unsafe trait SizedStruct: Copy {
    /// The name of the structure in the header.
    const NAME: &'static str;
    /// The offset at which each member ends.
    const ENDS: &'static [usize];
}

/// Implements [`SizedStruct`]. Lists all members in order, the size first.
macro_rules! sized {
    ($type:ty, $name:literal, $first:ident: usize, $($member:ident: $of:ty),* $(,)?) => {
        // SAFETY: the structure is `repr(C)`, and the members are numbers and pointers.
        unsafe impl $crate::sized::SizedStruct for $type {
            const NAME: &'static str = $name;
            const ENDS: &'static [usize] = &[
                std::mem::offset_of!($type, $first) + size_of::<usize>(),
                $(std::mem::offset_of!($type, $member) + size_of::<$of>()),*
            ];
        }
    };
}
pub(crate) use sized;

impl<T: SizedStruct> Ref<T> {
    /// Reads the structure that the program has passed. Members that the program does not have are
    /// zero, which is the default of each member. NULL gives all defaults.
    ///
    /// # Errors
    /// Fails for a size at which no version ends, or if a member beyond this version is not zero.
    pub(crate) fn read(&self) -> Result<T, Failure> {
        // SAFETY: the structure is NULL, or begins with the size, by the header's rule.
        unsafe { read(self.pointer()) }
    }

    /// Reads the structure, as [`Ref::read`] does, but refuses NULL.
    pub(crate) fn read_given(&self, what: &str) -> Result<T, Failure> {
        if self.pointer().is_null() { Err(missing(what)) } else { self.read() }
    }
}

impl<T: SizedStruct> Out<T> {
    /// Fills in the structure of the program, as far as it goes. Members beyond this version become
    /// zero.
    ///
    /// # Errors
    /// Fails for NULL, or a size at which no version ends.
    pub(crate) fn write(&self, value: &T) -> Result<Status, Failure> {
        self.check(T::NAME)?;
        // SAFETY: the structure is not NULL, and begins with the size, by the header's rule for
        // structures.
        unsafe { write(self.pointer(), value) }?;
        Ok(Status::Ok)
    }
}

/// Reads a structure.
///
/// # Safety
/// `from` must be NULL, or point to a structure with the size in the first member.
unsafe fn read<T: SizedStruct>(from: *const T) -> Result<T, Failure> {
    // SAFETY: zero is a valid value of each member.
    let mut value: T = unsafe { std::mem::zeroed() };
    if from.is_null() {
        return Ok(value);
    }
    // SAFETY: the pointer is not NULL, and every version has the size.
    let size = unsafe { ptr::read(from.cast::<usize>()) };
    check::<T>(size)?;
    if size > size_of::<T>() {
        // SAFETY: the program's structure has that size.
        let beyond = unsafe {
            std::slice::from_raw_parts(from.cast::<u8>().add(size_of::<T>()), size - size_of::<T>())
        };
        if beyond.iter().any(|byte| *byte != 0) {
            return Err(Failure::argument(format!(
                "`{}` sets a member that this library does not have (it ends at byte {}, not {size}); update the \
                 library, or leave that member 0",
                T::NAME,
                size_of::<T>()
            )));
        }
    }
    let bytes = size.min(size_of::<T>());
    // SAFETY: both have at least `bytes` bytes, and `value` is a local variable.
    unsafe { ptr::copy_nonoverlapping(from.cast::<u8>(), ptr::from_mut(&mut value).cast::<u8>(), bytes) };
    Ok(value)
}

/// Fills in a structure.
///
/// # Safety
/// `to` must point to a structure with the size in the first member.
unsafe fn write<T: SizedStruct>(to: *mut T, value: &T) -> Result<(), Failure> {
    // SAFETY: every version has the size.
    let size = unsafe { ptr::read(to.cast::<usize>()) };
    check::<T>(size)?;
    let (bytes, first) = (size.min(size_of::<T>()), size_of::<usize>());
    // SAFETY: both have at least `bytes` bytes, and the program's structure does not overlap a
    // local variable. The rest of the structure belongs to the program as well.
    unsafe {
        let (from, to) = (ptr::from_ref(value).cast::<u8>(), to.cast::<u8>());
        ptr::copy_nonoverlapping(from.add(first), to.add(first), bytes - first);
        ptr::write_bytes(to.add(bytes), 0, size - bytes);
    }
    Ok(())
}

/// The largest size that a program may pass. A larger number is garbage.
const SIZE_MAX: usize = 4096;

fn check<T: SizedStruct>(size: usize) -> Result<(), Failure> {
    // The last member may have padding behind it.
    let is_end = T::ENDS.contains(&size) || T::ENDS.iter().any(|end| end.next_multiple_of(8) == size);
    if is_end || (size > size_of::<T>() && size <= SIZE_MAX) {
        return Ok(());
    }
    Err(Failure::argument(format!(
        "the size {size} of `{0}` matches no version; set it to `sizeof({0})` before the call",
        T::NAME
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[repr(C)]
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Options {
        size: usize,
        depth: u32,
        rate: f64,
    }

    sized!(Options, "options", size: usize, depth: u32, rate: f64);

    #[repr(C)]
    struct Newer {
        of: Options,
        more: u64,
    }

    fn given(options: &Options) -> Result<Options, Failure> {
        // SAFETY: the pointer is to a whole structure.
        unsafe { read(options) }
    }

    #[test]
    fn an_older_program_gets_defaults_for_what_it_lacks() {
        let all = Options { size: 24, depth: 3, rate: 2.5 };
        assert_eq!(given(&all).unwrap(), all);
        assert_eq!(given(&Options { size: 16, ..all }).unwrap(), Options { size: 16, depth: 3, rate: 0.0 });
        assert_eq!(given(&Options { size: 12, ..all }).unwrap(), Options { size: 12, depth: 3, rate: 0.0 });
        assert_eq!(given(&Options { size: 8, ..all }).unwrap(), Options { size: 8, depth: 0, rate: 0.0 });
        // SAFETY: NULL is allowed.
        let defaults = unsafe { read::<Options>(ptr::null()) }.unwrap();
        assert_eq!(defaults, Options { size: 0, depth: 0, rate: 0.0 });
    }

    #[test]
    fn a_newer_program_is_served_unless_it_uses_what_is_new() {
        let mut newer = Newer { of: Options { size: 32, depth: 3, rate: 2.5 }, more: 0 };
        // SAFETY: the structure is whole, and has the size in the first member.
        assert_eq!(unsafe { read(ptr::from_ref(&newer).cast::<Options>()) }.unwrap().depth, 3);
        newer.more = 1;
        // SAFETY: as before.
        assert!(unsafe { read(ptr::from_ref(&newer).cast::<Options>()) }.is_err());
        // SAFETY: as before.
        unsafe { write(ptr::from_mut(&mut newer).cast(), &Options { size: 0, depth: 9, rate: 1.0 }) }
            .unwrap();
        assert_eq!((newer.of.size, newer.of.depth, newer.more), (32, 9, 0));
    }

    #[test]
    fn sizes_of_no_version_are_refused() {
        for size in [0, 1, 7, 9, 11, 13, 20, 23, SIZE_MAX + 1, usize::MAX] {
            assert!(given(&Options { size, depth: 0, rate: 0.0 }).is_err(), "{size}");
        }
    }

    #[test]
    fn an_older_structure_is_filled_in_as_far_as_it_goes() {
        let mut older = Options { size: 12, depth: 0, rate: 7.0 };
        // SAFETY: the pointer is to a whole structure.
        unsafe { write(&mut older, &Options { size: 0, depth: 9, rate: 1.0 }) }.unwrap();
        assert_eq!(older, Options { size: 12, depth: 9, rate: 7.0 });
    }
}
