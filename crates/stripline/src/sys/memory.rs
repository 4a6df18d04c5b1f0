//! Shared memory without names: sealed memfds, mapped twice in a row where a ring needs it.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};

use crate::error::{Error, Result};

/// Size of a page; x86-64 and arm64 Linux with 4 KiB pages.
pub(crate) const PAGE: usize = 4096;

const SEALS_ALWAYS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// A memfd of fixed size.
pub(crate) struct SharedMemory {
    fd: OwnedFd,
    bytes: usize,
}

impl SharedMemory {
    /// Allocates every page now, so that a full tmpfs is an error here and not a signal later. The size is
    /// sealed. The name shows in `/proc/PID/maps` only.
    pub(crate) fn new(name: &str, bytes: usize) -> Result<Self> {
        let failed = |e| Error::system(format!("cannot allocate {bytes} bytes of shared memory"), e);
        let fd = rustix::fs::memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)
            .map_err(failed)?;
        rustix::fs::ftruncate(&fd, bytes as u64).map_err(failed)?;
        rustix::fs::fallocate(&fd, rustix::fs::FallocateFlags::empty(), 0, bytes as u64).map_err(failed)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS_ALWAYS.difference(SealFlags::SEAL)).map_err(failed)?;
        Ok(Self { fd, bytes })
    }

    /// Forbids every further writable mapping; mappings that exist stay writable.
    pub(crate) fn seal_read_only(&self) -> Result<()> {
        rustix::fs::fcntl_add_seals(&self.fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
            .map_err(|e| Error::system("cannot seal shared memory", e))
    }

    /// Forbids changing the seals, for memory that both sides write.
    pub(crate) fn seal_size(&self) -> Result<()> {
        rustix::fs::fcntl_add_seals(&self.fd, SealFlags::SEAL)
            .map_err(|e| Error::system("cannot seal shared memory", e))
    }

    /// Takes over a descriptor that a peer sent, once it is seen to be a memfd of that size whose size is sealed:
    /// otherwise the peer could truncate it and kill this process with SIGBUS.
    pub(crate) fn from_peer(peer: &str, fd: OwnedFd, bytes: usize) -> Result<Self> {
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|_| Error::misbehaved(peer, "sent a descriptor that is not shared memory"))?;
        if !seals.contains(SEALS_ALWAYS) {
            return Err(Error::misbehaved(peer, "sent shared memory whose size is not sealed"));
        }
        let stat = rustix::fs::fstat(&fd).map_err(|e| Error::system("cannot inspect shared memory", e))?;
        if u64::try_from(stat.st_size) != Ok(bytes as u64) {
            let size = stat.st_size;
            return Err(Error::misbehaved(peer, format!("sent {size} bytes of shared memory, not {bytes}")));
        }
        Ok(Self { fd, bytes })
    }

    /// Maps all of it once.
    pub(crate) fn map(&self) -> Result<Mapping> {
        Mapping::new(self, self.bytes, true)
    }

    /// Maps one page and then the rest twice in a row: a control page and a mirrored ring.
    pub(crate) fn map_mirrored(&self, writable: bool) -> Result<Mapping> {
        let ring = self.bytes - PAGE;
        let mapping = Mapping::new(self, self.bytes + ring, writable)?;
        // SAFETY: the range [bytes, bytes + ring) lies in the reservation that `mapping` owns and nothing
        // refers to it yet; MAP_FIXED replaces just these pages.
        let mirrored = unsafe {
            rustix::mm::mmap(
                mapping.base.as_ptr().add(self.bytes).cast::<c_void>(),
                ring,
                protection(writable),
                MapFlags::SHARED | MapFlags::FIXED,
                &self.fd,
                PAGE as u64,
            )
        };
        mirrored.map_err(|e| Error::system("cannot map shared memory", e))?;
        Ok(mapping)
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Mapped memory, unmapped when dropped.
pub(crate) struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: a mapping is only an address range; what is read and written in it is up to its users.
unsafe impl Send for Mapping {}
// SAFETY: as above; every method takes `&self` and only computes addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `reserve` bytes of addresses and maps the memory at their start.
    fn new(memory: &SharedMemory, reserve: usize, writable: bool) -> Result<Self> {
        let failed = |e| Error::system("cannot map shared memory", e);
        // SAFETY: a fresh anonymous reservation at an address of the kernel's choice.
        let base = unsafe {
            rustix::mm::mmap_anonymous(std::ptr::null_mut(), reserve, ProtFlags::empty(), MapFlags::PRIVATE)
        };
        let base = base.map_err(failed)?;
        let Some(start) = NonNull::new(base.cast::<u8>()) else {
            return Err(failed(rustix::io::Errno::NOMEM));
        };
        let mapping = Self { base: start, bytes: reserve };
        // SAFETY: replaces the first pages of the reservation just made, which nothing refers to yet.
        let mapped = unsafe {
            rustix::mm::mmap(
                base,
                memory.bytes,
                protection(writable),
                MapFlags::SHARED | MapFlags::FIXED,
                &memory.fd,
                0,
            )
        };
        mapped.map_err(failed)?;
        Ok(mapping)
    }

    /// The address of the first byte.
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.base
    }

    /// The address `offset` bytes on.
    pub(crate) fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.bytes, "offset {offset} is outside the mapping");
        // SAFETY: within the mapping, as just asserted.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping owns the range; whoever holds addresses into it holds the mapping too.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

fn protection(writable: bool) -> ProtFlags {
    if writable { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_appears_twice_in_a_row() {
        let memory = SharedMemory::new("test", PAGE + 2 * PAGE).unwrap();
        let map = memory.map_mirrored(true).unwrap();
        memory.seal_read_only().unwrap();
        // SAFETY: both addresses lie in the mapping, and nobody else uses it.
        unsafe {
            map.at(PAGE + 5).write(77);
            assert_eq!(map.at(PAGE + 2 * PAGE + 5).read(), 77);
        }
        let peer = SharedMemory::from_peer("peer", memory.fd.try_clone().unwrap(), 3 * PAGE).unwrap();
        assert!(peer.map_mirrored(true).is_err(), "a sealed ring must not be mapped writable again");
        assert!(peer.map_mirrored(false).is_ok());
    }

    #[test]
    fn forged_descriptors_are_refused_by_name() {
        let (end, _) = std::os::unix::net::UnixStream::pair().unwrap();
        let refused = |fd: OwnedFd, bytes| {
            SharedMemory::from_peer("peer", fd, bytes).map(|_| ()).unwrap_err().to_string()
        };
        assert!(refused(end.into(), PAGE).contains("not shared memory"));
        let unsealed =
            rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        assert!(refused(unsealed, PAGE).contains("not sealed"));
        let small = SharedMemory::new("t", PAGE).unwrap();
        small.seal_size().unwrap();
        assert!(refused(small.fd, 2 * PAGE).contains("not 8192"));
    }
}
