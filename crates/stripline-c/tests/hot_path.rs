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
    let (mut loan, mut memory, mut packet, none) = (null_mut(), null_mut(), null_mut(), null_mut());
    // SAFETY: the info has the size set.
    unsafe {
        let mut info: PacketInfo = std::mem::zeroed();
        info.size = size_of::<PacketInfo>();
        assert_eq!(stripline_publisher_loan(publisher, 64, &mut memory, &mut loan, none), Status::Ok);
        assert_eq!(stripline_loan_commit(loan, null(), none), Status::Ok);
        assert_eq!(stripline_subscriber_receive(subscriber, 0, &mut packet, none), Status::Ok);
        assert_eq!(stripline_packet_get_info(packet, &mut info, none), Status::Ok);
        assert_eq!(stripline_packet_release(packet, none), Status::Ok);
        assert_eq!(stripline_publisher_send(publisher, [1_u8].as_ptr().cast(), 1, null(), none), Status::Ok);
        assert_eq!(stripline_subscriber_receive(subscriber, -1, &mut packet, none), Status::Ok);
        assert_eq!(stripline_packet_release(packet, none), Status::Ok);
    }
}

/// Returns the number of allocations for the packets over a transport, one at a time or with
/// `hold`.
fn allocations(transport: &str, hold: u32) -> u64 {
    let topics = CString::new(format!("[default]\ntransport = '{transport}'")).unwrap();
    let domain = CString::new(format!("c-hot-{transport}-{hold}-{}", std::process::id())).unwrap();
    let options = NodeOptions {
        size: size_of::<NodeOptions>(),
        domain: domain.as_ptr(),
        topics: topics.as_ptr(),
        isolated: 0,
    };
    let of =
        SampleType { size: size_of::<SampleType>(), name: c"u8".as_ptr(), sample_size: 0, sample_align: 0 };
    let (mut node, mut publisher, mut subscriber, none) = (null_mut(), null_mut(), null_mut(), null_mut());
    let topic = c"t".as_ptr();
    // SAFETY: each handle is made before it is used, and freed once.
    unsafe {
        let mut wanted: SubscriberOptions = std::mem::zeroed();
        (wanted.size, wanted.hold) = (size_of::<SubscriberOptions>(), hold);
        assert_eq!(stripline_node_new(&options, &mut node, none), Status::Ok);
        assert_eq!(stripline_publisher_new(node, topic, &of, &mut publisher, none), Status::Ok);
        assert_eq!(stripline_subscriber_new(node, topic, &of, &wanted, &mut subscriber, none), Status::Ok);
        assert_eq!(stripline_publisher_wait_for_receivers(publisher, 1, FOREVER, none), Status::Ok);
        (0..PACKETS).for_each(|_| pass(publisher, subscriber));
        let before = ALLOCATIONS.get();
        (0..PACKETS).for_each(|_| pass(publisher, subscriber));
        let count = ALLOCATIONS.get() - before;
        stripline_publisher_free(publisher);
        stripline_subscriber_free(subscriber);
        stripline_node_free(node);
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
