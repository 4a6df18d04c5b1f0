//! Checks that loan, commit, receive and release make no allocation, by counting them.
#![allow(clippy::unwrap_used, reason = "a panic is the failure of the test")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::CString;
use std::ptr::{null, null_mut};

use stripline_c::*;

/// The number of packets, before and during the count: more than two laps of a ring.
const PACKETS: u32 = 1_200;

/// An allocator that counts the allocations of a thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller follows the contract of `GlobalAlloc`, which is also the contract of
        // `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller follows the contract of `GlobalAlloc`, which is also the contract of
        // `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sends a packet and takes it, with all calls on the path of a packet in C.
///
/// # Safety
/// Both handles must belong to one topic of bytes, and must not be freed.
unsafe fn pass(publisher: *mut Publisher, subscriber: *mut Subscriber) {
    let (mut loan, mut memory, mut packet) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the info has the size set; the caller promises the rest.
    unsafe {
        let none = ErrorOut::new(null_mut());
        let (publisher, subscriber) = (|| Handle::new(publisher), || Handle::new(subscriber));
        let mut info: PacketInfo = std::mem::zeroed();
        info.size = size_of::<PacketInfo>();
        let (memory, lent) = (Out::new(&mut memory), Out::new(&mut loan));
        assert_eq!(stripline_publisher_loan(publisher(), 64, memory, lent, none), Status::Ok);
        assert_eq!(stripline_loan_commit(Handle::new(loan), Ref::new(null()), none), Status::Ok);
        let place = Out::new(&mut packet);
        assert_eq!(stripline_subscriber_receive(subscriber(), 0, place, none), Status::Ok);
        let status = stripline_packet_get_info(Ref::new(packet), Out::new(&mut info), none);
        assert_eq!(status, Status::Ok);
        assert_eq!(stripline_packet_release(Handle::new(packet), none), Status::Ok);
        let byte = Data::new([1_u8].as_ptr().cast());
        assert_eq!(stripline_publisher_send(publisher(), byte, 1, Ref::new(null()), none), Status::Ok);
        let place = Out::new(&mut packet);
        assert_eq!(stripline_subscriber_receive(subscriber(), -1, place, none), Status::Ok);
        assert_eq!(stripline_packet_release(Handle::new(packet), none), Status::Ok);
    }
}

/// Returns the number of allocations for the packets over a transport, one at a time or with
/// `hold`.
fn allocations(transport: &str, hold: u32) -> u64 {
    let topics = CString::new(format!("[default]\ntransport = '{transport}'")).unwrap();
    let domain = CString::new(format!("c-hot-{transport}-{hold}-{}", std::process::id())).unwrap();
    // SAFETY: each handle is made before it is used, and freed once. The texts stay until the end.
    unsafe {
        let options = NodeOptions {
            size: size_of::<NodeOptions>(),
            domain: Str::new(domain.as_ptr()),
            topics: Str::new(topics.as_ptr()),
            isolated: 0,
        };
        let (size, name) = (size_of::<SampleType>(), Str::new(c"u8".as_ptr()));
        let of = SampleType { size, name, sample_size: 0, sample_align: 0 };
        let (mut node, mut publisher, mut subscriber) = (null_mut(), null_mut(), null_mut());
        let (topic, none) = (Str::new(c"t".as_ptr()), ErrorOut::new(null_mut()));
        let mut wanted: SubscriberOptions = std::mem::zeroed();
        (wanted.size, wanted.hold) = (size_of::<SubscriberOptions>(), hold);
        let place = Out::new(&mut node);
        assert_eq!(stripline_node_new(Ref::new(&options), place, none), Status::Ok);
        let (place, joined) = (Out::new(&mut publisher), || Ref::new(node));
        assert_eq!(stripline_publisher_new(joined(), topic, Ref::new(&of), place, none), Status::Ok);
        let (place, wanted) = (Out::new(&mut subscriber), Ref::new(&wanted));
        let status = stripline_subscriber_new(joined(), topic, Ref::new(&of), wanted, place, none);
        assert_eq!(status, Status::Ok);
        let all = stripline_publisher_wait_for_receivers(Handle::new(publisher), 1, FOREVER, none);
        assert_eq!(all, Status::Ok);
        (0..PACKETS).for_each(|_| pass(publisher, subscriber));
        let before = ALLOCATIONS.get();
        (0..PACKETS).for_each(|_| pass(publisher, subscriber));
        let count = ALLOCATIONS.get() - before;
        stripline_publisher_free(Handle::new(publisher));
        stripline_subscriber_free(Handle::new(subscriber));
        stripline_node_free(Handle::new(node));
        count
    }
}

#[test]
fn packets_make_no_allocation() {
    for transport in ["inproc", "shm"] {
        assert_eq!(allocations(transport, 0), 0, "{transport}");
        assert_eq!(allocations(transport, 4), 0, "{transport}, held");
    }
}

#[test]
fn the_instrument_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 2);
}
