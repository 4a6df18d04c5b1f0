//! The shortest paths of a packet, inlined into their caller.
//!
//! A loop in Rust has a loan, a send and a receive within it, and calls the functions of the link
//! for them. A function of the C library stands alone, and a second call beneath it costs a quarter
//! of the packet. So these do without. They serve the next packet of a steady stream, over one
//! ring. All else is left to the functions of [`Publisher`] and [`Subscriber`].

use std::mem::ManuallyDrop;

use crate::error::Result;
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;

use super::{Loan, Packet, Publisher, Subscriber};

/// Lends room as [`Publisher::loan`]; `None`: nothing was lent.
#[inline(always)]
pub fn loan<T: Content>(publisher: &mut Publisher<T>, samples: usize) -> Option<Loan<'_, T>> {
    let form = publisher.form();
    let start = publisher.link().reserve_inlined(samples.checked_mul(form.size())?)?.of(form).start();
    Some(Loan::of(publisher, start, samples))
}

/// Sends a loan as [`Loan::send`]; false: nothing was sent. Once it is sent, it must be forgotten:
/// its drop would reset the options of the next packet.
#[inline(always)]
pub fn send<T: Content>(loan: &mut Loan<'_, T>) -> bool {
    loan.send_inlined()
}

/// Receives as [`Subscriber::try_receive`]; `None`: nothing was received. With `spins`, a port that
/// spins polls for a few microseconds before that.
///
/// # Errors
/// As [`Subscriber::receive`], for a packet that is no whole samples.
#[inline(always)]
pub fn receive<T: Content>(subscriber: &mut Subscriber<T>, spins: bool) -> Option<Result<Packet<'_, T>>> {
    let samples = subscriber.incoming.receive_inlined(spins)?;
    Some(subscriber.lent(samples))
}

/// Releases a packet as its drop does.
#[inline(always)]
pub fn release<T: Content>(packet: Packet<'_, T>) {
    ManuallyDrop::new(packet).release_inlined();
}
