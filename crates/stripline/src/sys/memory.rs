//! Shared memory without names: sealed memfds. The memory of a ring is mapped twice in a row.

use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::mm::{MapFlags, MprotectFlags, MremapFlags, ProtFlags};

use crate::error::{Error, Result};

use super::fork::{self, Descriptor, SharedPages};
use super::huge_pages::{self, HugePages};

/// The size of a page. Kernels with larger pages, such as some for arm64, are refused: see
/// `check_page_size`.
pub const PAGE: usize = 4096;

const SEALS_ALWAYS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// The seals of a ring's memory: no further writable mapping is possible, and no hole can be
/// punched.
const SEALS_OF_RING: SealFlags = SEALS_ALWAYS.union(SealFlags::FUTURE_WRITE);

/// A memfd of fixed size.
pub struct SharedMemory {
    fd: Descriptor,
    bytes: usize,
    /// The size of a page of this memory, in bytes.
    page: usize,
}

/// Pages are mapped in advance, as page faults would otherwise occur during the first lap of a
/// ring.
const IN_PLACE: MapFlags = MapFlags::SHARED.union(MapFlags::FIXED).union(MapFlags::POPULATE);

impl SharedMemory {
    /// Allocates every page at once, so that a full tmpfs is an error here and not a signal later.
    /// The size is sealed. The name appears only in `/proc/PID/maps`.
    pub fn new(name: &str, bytes: usize) -> Result<Self> {
        let failed = |e| Error::system(format!("cannot allocate {bytes} bytes of shared memory"), e);
        check_page_size(rustix::param::page_size())?;
        Self::allocate(name, bytes, PAGE, MemfdFlags::empty()).map_err(failed)
    }

    /// Allocates memory for a control page and a ring of `capacity` bytes, of huge pages if
    /// requested.
    ///
    /// # Errors
    /// The errors of [`SharedMemory::new`]. For huge pages, the error names the remedy.
    pub fn ring(name: &str, capacity: usize, huge_pages: bool) -> Result<Self> {
        if !huge_pages {
            return Self::new(name, PAGE + capacity);
        }
        check_page_size(rustix::param::page_size())?;
        let pages = HugePages::now()?;
        pages.check_capacity(capacity)?;
        let bytes = pages.size + capacity;
        // The call may fail although pages were free before: another process may have taken them.
        Self::allocate(name, bytes, pages.size, MemfdFlags::HUGETLB)
            .map_err(|cause| HugePages::now().unwrap_or(pages).refusal(bytes, cause))
    }

    fn allocate(name: &str, bytes: usize, page: usize, flags: MemfdFlags) -> rustix::io::Result<Self> {
        let flags = flags | MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let fd = fork::open_one(|| rustix::fs::memfd_create(name, flags))?;
        rustix::fs::ftruncate(&fd, bytes as u64)?;
        rustix::fs::fallocate(&fd, rustix::fs::FallocateFlags::empty(), 0, bytes as u64)?;
        rustix::fs::fcntl_add_seals(&fd, SEALS_ALWAYS.difference(SealFlags::SEAL))?;
        Ok(Self { fd, bytes, page })
    }

    /// Returns the size of the memory's pages in bytes, which is also the offset of a ring behind
    /// the control page.
    pub fn page(&self) -> usize {
        self.page
    }

    /// Forbids every further writable mapping. Existing mappings stay writable.
    pub fn seal_read_only(&self) -> Result<()> {
        rustix::fs::fcntl_add_seals(&self.fd, SealFlags::FUTURE_WRITE | SealFlags::SEAL)
            .map_err(|e| Error::system("cannot seal shared memory", e))
    }

    /// Forbids changing the seals, for memory that both sides write.
    pub fn seal_size(&self) -> Result<()> {
        rustix::fs::fcntl_add_seals(&self.fd, SealFlags::SEAL)
            .map_err(|e| Error::system("cannot seal shared memory", e))
    }

    /// Takes a descriptor that a peer sent, after checking that it is a writable memfd of the given
    /// size, with the size sealed. Otherwise the peer could truncate the memfd and kill this
    /// process with SIGBUS. Both sides write to the memory.
    pub fn from_peer(peer: &str, fd: OwnedFd, bytes: usize) -> Result<Self> {
        let memory = Self::checked(peer, fd, bytes, PAGE, SEALS_ALWAYS)?;
        let failed = |e| Error::system("cannot inspect shared memory", e);
        // Checked last: the seals cannot change any more.
        let seals = rustix::fs::fcntl_get_seals(&memory.fd).map_err(failed)?;
        let is_sealed = seals.intersects(SealFlags::WRITE | SealFlags::FUTURE_WRITE);
        if is_sealed || memory.access()? != OFlags::RDWR {
            return Err(Error::misbehaved(peer, "sent shared memory that cannot be written"));
        }
        Ok(memory)
    }

    /// Takes a descriptor like [`SharedMemory::from_peer`], for a control page and a ring, with the
    /// page size that the peer announced.
    pub fn ring_from_peer(peer: &str, fd: OwnedFd, page: usize, capacity: usize) -> Result<Self> {
        if page != PAGE && !HugePages::now().is_ok_and(|pages| pages.size == page) {
            return Err(Error::misbehaved(peer, format!("announced memory in pages of {page} bytes")));
        }
        if !capacity.is_multiple_of(page) {
            let violation = format!("announced a ring of {capacity} bytes in pages of {page}");
            return Err(Error::misbehaved(peer, violation));
        }
        let memory = Self::checked(peer, fd, page + capacity, page, SEALS_OF_RING)?;
        if memory.access()? == OFlags::WRONLY {
            return Err(Error::misbehaved(peer, "sent a ring that cannot be read"));
        }
        Ok(memory)
    }

    /// Returns whether the descriptor can be read, written or both.
    fn access(&self) -> Result<OFlags> {
        let flags = rustix::fs::fcntl_getfl(&self.fd);
        let flags = flags.map_err(|e| Error::system("cannot inspect shared memory", e))?;
        Ok(flags & OFlags::ACCMODE)
    }

    fn checked(peer: &str, fd: OwnedFd, bytes: usize, page: usize, wanted: SealFlags) -> Result<Self> {
        let failed = |e| Error::system("cannot inspect shared memory", e);
        let misbehaved = |violation: String| Err(Error::misbehaved(peer, violation));
        let seals = rustix::fs::fcntl_get_seals(&fd)
            .map_err(|_| Error::misbehaved(peer, "sent a descriptor that is not shared memory"))?;
        if !seals.contains(SEALS_ALWAYS) {
            return misbehaved("sent shared memory with a size that is not sealed".into());
        }
        if !seals.contains(wanted) {
            return misbehaved("sent a ring that is not sealed against writing".into());
        }
        let stat = rustix::fs::fstat(&fd).map_err(failed)?;
        if u64::try_from(stat.st_size) != Ok(bytes as u64) {
            return misbehaved(format!("sent {} bytes of shared memory, not {bytes}", stat.st_size));
        }
        let file_page = rustix::fs::fstatfs(&fd).map_err(failed)?.f_bsize;
        if usize::try_from(file_page) != Ok(page) {
            return misbehaved(format!("sent shared memory in pages of {file_page} bytes, not {page}"));
        }
        // A missing page is allocated at the first access. Without a free page, that access kills
        // the process with SIGBUS.
        if u64::try_from(stat.st_blocks).unwrap_or(0) * 512 < bytes as u64 {
            return misbehaved("sent shared memory with holes".into());
        }
        Ok(Self { fd: Descriptor::new(fd), bytes, page })
    }

    /// Maps the whole memory once.
    pub fn map(&self) -> Result<Mapping> {
        Mapping::new(self, self.bytes, true).map(|mapping| mapping.shared(true))
    }

    /// Maps one page and then the rest twice in a row: a control page and a mirrored ring.
    pub fn map_mirrored(&self, writable: bool) -> Result<Mapping> {
        let ring = self.bytes - self.page;
        let mapping = Mapping::new(self, self.bytes + ring, writable)?;
        // SAFETY: the range [bytes, bytes + ring) lies in the reservation that `mapping` owns, and
        // no reference to it exists yet; MAP_FIXED replaces only these pages.
        let mirrored = unsafe {
            rustix::mm::mmap(
                mapping.base.as_ptr().add(self.bytes).cast::<c_void>(),
                ring,
                protection(writable),
                IN_PLACE,
                &self.fd,
                self.page as u64,
            )
        };
        mirrored.map_err(|e| Error::system("cannot map shared memory", e))?;
        Ok(mapping.shared(writable))
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Mapped memory, unmapped when dropped.
pub struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
    page: usize,
    /// For a writable mapping: the entry that keeps the pages from the children of this process.
    shared: Option<SharedPages>,
}

// SAFETY: a mapping is only an address range. Each access has a separate SAFETY argument.
unsafe impl Send for Mapping {}
// SAFETY: as above; every method takes `&self` and only computes addresses.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `reserve` bytes of addresses, aligned to the page size, and maps the memory at
    /// their start.
    fn new(memory: &SharedMemory, reserve: usize, writable: bool) -> Result<Self> {
        let failed = |e| Error::system("cannot map shared memory", e);
        let page = memory.page;
        // The kernel itself aligns to ordinary pages.
        let spare = page - PAGE;
        // SAFETY: this is a fresh anonymous reservation at an address that the kernel chooses.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                reserve + spare,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        };
        let base = base.map_err(failed)?.cast::<u8>();
        let before = base.align_offset(page);
        // SAFETY: the addresses are within the reservation, which is `spare` bytes longer than the
        // kept range. No reference exists to the bytes before and behind that range, which are
        // unmapped.
        let base = unsafe {
            let start = base.add(before);
            let _ = rustix::mm::munmap(base.cast(), before);
            let _ = rustix::mm::munmap(start.add(reserve).cast(), spare - before);
            start
        };
        let Some(start) = NonNull::new(base) else {
            return Err(failed(rustix::io::Errno::NOMEM));
        };
        let mapping = Self { base: start, bytes: reserve, page, shared: None };
        // SAFETY: the call replaces the first pages of the reservation just made, to which no
        // reference exists yet.
        let mapped = unsafe {
            rustix::mm::mmap(
                base.cast::<c_void>(),
                memory.bytes,
                protection(writable),
                IN_PLACE,
                &memory.fd,
                0,
            )
        };
        mapped.map_err(failed)?;
        Ok(mapping)
    }

    /// Keeps a writable mapping from the children of this process. A read-only mapping stays
    /// readable in a child.
    fn shared(mut self, writable: bool) -> Self {
        self.shared = writable.then(|| SharedPages::new(self.base, self.bytes));
        self
    }

    /// Locks the whole mapping into memory until it is unmapped, so that no access waits for a
    /// page.
    ///
    /// # Errors
    /// The limit was reached. The error names it, and how to raise it.
    pub fn lock(&self) -> Result<()> {
        if self.page != PAGE {
            // The kernel never swaps huge pages and does not count them as locked. Such pages only
            // have to be mapped.
            self.touch();
            return Ok(());
        }
        // SAFETY: this mapping owns the range, and locking does not change the content.
        unsafe { rustix::mm::mlock(self.base.as_ptr().cast(), self.bytes) }
            .map_err(|cause| huge_pages::lock_refusal(self.bytes, cause))
    }

    /// Maps the memory of a mirrored ring once more, for reading. The second half begins at
    /// `mirror`.
    ///
    /// # Errors
    /// An error of the system, or the memory consists of huge pages.
    pub fn duplicate(&self, mirror: usize) -> Result<Self> {
        let failed = |e| Error::system("cannot map shared memory once more", e);
        // SAFETY: this is a fresh anonymous reservation at an address that the kernel chooses.
        let base = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                self.bytes,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        };
        let Some(base) = NonNull::new(base.map_err(failed)?.cast::<u8>()) else {
            return Err(failed(rustix::io::Errno::NOMEM));
        };
        let copy = Self { base, bytes: self.bytes, page: self.page, shared: None };
        for (start, end) in [(0, mirror), (mirror, self.bytes)] {
            // SAFETY: with a length of 0, the call leaves the pages in place and maps them at the
            // new address as well. The call replaces a part of the reservation just made, to which
            // no reference exists yet.
            let mapped = unsafe {
                rustix::mm::mremap_fixed(
                    self.at(start).as_ptr().cast(),
                    0,
                    end - start,
                    MremapFlags::MAYMOVE,
                    copy.at(start).as_ptr().cast(),
                )
            };
            mapped.map_err(failed)?;
        }
        Ok(copy)
    }

    /// Replaces the pages of the given bytes by a copy that belongs to this mapping alone. Other
    /// threads may read the bytes during the call, if no process writes them. Bytes beside them on
    /// the same pages get some earlier content.
    ///
    /// # Errors
    /// An error of the system. The bytes are still in place.
    pub fn make_private(&self, bytes: &[u8]) -> Result<()> {
        let failed = |e| Error::system("cannot copy pages of shared memory", e);
        let offset = bytes.as_ptr().addr() - self.base.as_ptr().addr();
        let start = offset / PAGE * PAGE;
        let length = (offset + bytes.len()).next_multiple_of(PAGE) - start;
        assert!(start + length <= self.bytes && self.page == PAGE, "the bytes are in the mapping");
        // SAFETY: this is fresh anonymous memory at an address that the kernel chooses.
        let copy = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                length,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        let copy = copy.map_err(failed)?;
        for offset in (0..length).step_by(8) {
            // SAFETY: the word is within the mapping and aligned. The load is atomic, because a
            // peer may write beside the bytes. Relaxed: no process writes the bytes themselves.
            let word =
                unsafe { self.at(start + offset).cast::<AtomicU64>().as_ref() }.load(Ordering::Relaxed);
            // SAFETY: the address is within the memory just made, which no other thread has.
            unsafe { copy.byte_add(offset).cast::<u64>().write(word) };
        }
        // SAFETY: the memory just made replaces pages of this mapping in one step. A thread that
        // reads the pages finds the same bytes before and after.
        let replaced = unsafe {
            rustix::mm::mprotect(copy, length, MprotectFlags::READ).and_then(|()| {
                let target = self.at(start).as_ptr().cast();
                rustix::mm::mremap_fixed(copy, length, length, MremapFlags::MAYMOVE, target)
            })
        };
        replaced.map(drop).map_err(|e| {
            // SAFETY: the memory was not moved, and no reference to it exists.
            let _ = unsafe { rustix::mm::munmap(copy, length) };
            failed(e)
        })
    }

    /// Reads a byte of every page.
    fn touch(&self) {
        for offset in (0..self.bytes).step_by(self.page) {
            // SAFETY: the byte is within the mapping, and is written through this address only as a
            // byte. The load is atomic, because the peer may be writing. Relaxed: the value is not
            // used.
            let byte = unsafe { self.at(offset).cast::<AtomicU8>().as_ref() };
            byte.load(Ordering::Relaxed);
        }
    }

    /// Returns the address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.base
    }

    /// Returns the address at `offset` bytes.
    pub fn at(&self, offset: usize) -> NonNull<u8> {
        assert!(offset < self.bytes, "offset {offset} is outside the mapping");
        // SAFETY: within the mapping, as just asserted.
        unsafe { self.base.add(offset) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // The pages leave the table first: once the addresses are free, other memory may take them.
        self.shared = None;
        // SAFETY: this mapping owns the range, and every user of addresses in the range holds the
        // mapping.
        let _ = unsafe { rustix::mm::munmap(self.base.as_ptr().cast(), self.bytes) };
    }
}

/// Checks that a ring can lie behind a control page of [`PAGE`] bytes.
///
/// The kernel maps memory in whole pages.
///
/// # Errors
/// The kernel has another page size. The error names the transports that work with it.
fn check_page_size(kernel: usize) -> Result<()> {
    if kernel == PAGE {
        return Ok(());
    }
    Err(Error::of_system(format!(
        "this kernel has pages of {kernel} bytes, and rings (`inproc` and `shm`) need pages of {PAGE} bytes; use `uds` \
         or `tcp`, or boot a kernel with pages of {PAGE} bytes"
    )))
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
        // SAFETY: both addresses lie in the mapping, and no other thread uses it.
        unsafe {
            map.at(PAGE + 5).write(77);
            assert_eq!(map.at(PAGE + 2 * PAGE + 5).read(), 77);
        }
        let copy = || memory.fd.try_clone().unwrap();
        let error = SharedMemory::from_peer("peer", copy(), 3 * PAGE).err().unwrap().to_string();
        assert!(error.contains("memory that cannot be written"), "{error}");
        let peer = SharedMemory::ring_from_peer("peer", copy(), PAGE, 2 * PAGE).unwrap();
        assert!(peer.map_mirrored(true).is_err(), "a sealed ring must not be mapped writable again");
        assert!(peer.map_mirrored(false).is_ok());
    }

    #[test]
    fn a_page_of_a_peer_must_be_open_for_writing() {
        use std::os::fd::AsRawFd;
        let memory = SharedMemory::new("test", PAGE).unwrap();
        memory.seal_size().unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_fd().as_raw_fd());
        for (flags, is_taken) in [(OFlags::RDWR, true), (OFlags::RDONLY, false), (OFlags::WRONLY, false)] {
            let open = || rustix::fs::open(&path, flags | OFlags::CLOEXEC, rustix::fs::Mode::empty());
            let page = SharedMemory::from_peer("peer", open().unwrap(), PAGE).and_then(|page| page.map());
            let error = page.map(drop).map_err(|error| error.to_string());
            assert_eq!(error.is_ok(), is_taken, "{error:?}");
            assert!(is_taken || error.unwrap_err().contains("the other end sent shared memory"));
        }
    }

    #[test]
    fn private_pages_keep_their_bytes_while_the_ring_goes_on() {
        let memory = SharedMemory::new("test", PAGE + 4 * PAGE).unwrap();
        let writer = memory.map_mirrored(true).unwrap();
        memory.seal_read_only().unwrap();
        let reader = memory.map_mirrored(false).unwrap();
        let fill = |value: u8| {
            (0..4 * PAGE).for_each(|offset| {
                // SAFETY: the byte is within the mapping, and the store is atomic.
                let byte = unsafe { writer.at(PAGE + offset).cast::<AtomicU8>().as_ref() };
                byte.store(value, Ordering::Relaxed);
            });
        };
        fill(1);
        // The bytes cross a page boundary, or the boundary of the mirror.
        let kept = [(PAGE - 50 + PAGE, 100), (PAGE + 4 * PAGE - 50, 100)].map(|(offset, bytes)| {
            // SAFETY: the bytes are within the mapping, and not written before they are private.
            unsafe { std::slice::from_raw_parts(reader.at(offset).as_ptr(), bytes) }
        });
        let again = reader.duplicate(PAGE + 4 * PAGE).unwrap();
        kept.iter().for_each(|bytes| reader.make_private(bytes).unwrap());
        fill(2);
        assert!(kept.iter().all(|bytes| bytes.iter().all(|byte| *byte == 1)));
        for offset in [PAGE, 2 * PAGE - 1, 5 * PAGE - 1, 5 * PAGE, 9 * PAGE - 1] {
            // SAFETY: the byte is within the mapping, and no thread writes now.
            assert_eq!(unsafe { again.at(offset).read() }, 2, "at {offset}");
        }
        drop(again);
        assert!(kept.iter().all(|bytes| bytes.iter().all(|byte| *byte == 1)));
    }

    #[test]
    fn kernels_with_other_pages_are_refused_with_what_works() {
        check_page_size(4096).unwrap();
        for kernel in [16 << 10, 64 << 10] {
            let refusal = check_page_size(kernel).unwrap_err().to_string();
            for part in [&kernel.to_string(), "4096", "`uds` or `tcp`"] {
                assert!(refusal.contains(part), "{refusal}");
            }
        }
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
        assert!(refused(small.fd.try_clone().unwrap(), 2 * PAGE).contains("not 8192"));
        let sparse = rustix::fs::memfd_create("t", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        rustix::fs::ftruncate(&sparse, PAGE as u64).unwrap();
        rustix::fs::fcntl_add_seals(&sparse, SEALS_ALWAYS).unwrap();
        assert!(refused(sparse, PAGE).contains("with holes"));
    }

    #[test]
    fn forged_rings_are_refused_by_name() {
        let refused = |memory: &SharedMemory, page, capacity| {
            let fd = memory.fd.try_clone().unwrap();
            SharedMemory::ring_from_peer("peer", fd, page, capacity).map(|_| ()).unwrap_err().to_string()
        };
        let writable = SharedMemory::ring("t", PAGE, false).unwrap();
        writable.seal_size().unwrap();
        assert!(refused(&writable, PAGE, PAGE).contains("not sealed against writing"));
        let ring = SharedMemory::ring("t", PAGE, false).unwrap();
        ring.seal_read_only().unwrap();
        for page in [0, 1, 3 * PAGE, usize::MAX] {
            let said = refused(&ring, page, PAGE);
            assert!(said.contains(&format!("pages of {page} bytes")), "{said}");
        }
        if let Ok(HugePages { size, .. }) = HugePages::now() {
            let said = refused(&ring, size, PAGE);
            assert!(said.contains("a ring of 4096 bytes in pages"), "{said}");
            // This memory has the required size, but ordinary pages.
            let ring = SharedMemory::new("t", 2 * size).unwrap();
            ring.seal_read_only().unwrap();
            let said = refused(&ring, size, size);
            assert!(said.contains("pages of 4096 bytes, not"), "{said}");
        }
        SharedMemory::ring_from_peer("peer", ring.fd.try_clone().unwrap(), PAGE, PAGE).unwrap();
    }
}
