//! The shortest paths of a packet, inlined into their caller.
//!
//! In Rust, a loop inlines `loan`, `send` and `receive`, and calls the functions of the link for
//! them. A function of the C library stands alone, and a second call inside it costs a quarter of
//! the packet's time. The functions here avoid that call. The functions serve the next packet of a
//! steady stream over one ring and leave all other cases to the functions of [`Publisher`] and
//! [`Subscriber`].

use std::mem::ManuallyDrop;

use crate::error::Result;
use crate::packet::content::SampleForm;
use crate::packet::payload::Content;

use super::{Loan, Packet, Publisher, Subscriber};

/// Lends room as [`Publisher::loan`] does; `None`: nothing was lent.
#[inline(always)]
pub fn loan<T: Content>(publisher: &mut Publisher<T>, samples: usize) -> Option<Loan<'_, T>> {
    let form = publisher.form();
    let start = publisher.link().reserve_inlined(samples.checked_mul(form.size())?)?.of(form).start();
    Some(Loan::of(publisher, start, samples))
}

/// Sends a loan as [`Loan::send`] does; false: nothing was sent. The caller must forget a loan that
/// was sent: dropping it would reset the options of the next packet.
#[inline(always)]
pub fn send<T: Content>(loan: &mut Loan<'_, T>) -> bool {
    loan.send_inlined()
}

/// Receives as [`Subscriber::try_receive`] does; `None`: nothing was received. With `spins`, a port
/// that spins first polls for a few microseconds.
///
/// # Errors
/// Same as [`Subscriber::receive`] for a packet that does not consist of whole samples.
#[inline(always)]
pub fn receive<T: Content>(subscriber: &mut Subscriber<T>, spins: bool) -> Option<Result<Packet<'_, T>>> {
    let samples = subscriber.incoming.receive_inlined(spins)?;
    Some(subscriber.lent(samples))
}

/// Releases a packet as dropping it does.
#[inline(always)]
pub fn release<T: Content>(packet: Packet<'_, T>) {
    ManuallyDrop::new(packet).release_inlined();
}
