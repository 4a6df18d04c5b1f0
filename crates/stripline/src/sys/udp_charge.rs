//! The memory that the kernel charges to a receive buffer for a datagram (`SO_MEMINFO`, Linux
//! 4.12).

use std::io::{self, IoSlice};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, Instant};

use super::doorbell::PollSet;
use super::udp::UdpEnd;

/// The numbers of `SO_MEMINFO` (`linux/sock_diag.h`). The first is the memory of the receive queue.
const MEMORY_NUMBERS: usize = 9;

/// The longest time that a datagram of this process takes to arrive, on a busy host.
const ARRIVAL_TIME: Duration = Duration::from_millis(500);

impl UdpEnd {
    /// Returns the part of the receive buffer that the waiting datagrams take.
    ///
    /// # Errors
    /// The kernel has no `SO_MEMINFO`.
    pub(crate) fn queued_charge(&self) -> io::Result<u64> {
        let mut numbers = [0_u32; MEMORY_NUMBERS];
        let mut bytes = size_of_val(&numbers) as libc::socklen_t;
        let (fd, place) = (self.socket.as_raw_fd(), numbers.as_mut_ptr().cast());
        // SAFETY: the descriptor is open, and there is room for that many bytes.
        let outcome =
            unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_MEMINFO, place, &raw mut bytes) };
        if outcome == 0 { Ok(numbers[0].into()) } else { Err(io::Error::last_os_error()) }
    }
}

/// Returns the maximum memory that a datagram of each of these sizes takes over the loopback
/// interface, sent alone or cut out of one send. Empty: the kernel does not report it.
pub(crate) fn loopback_charges(sizes: impl Iterator<Item = usize>) -> Vec<u32> {
    measure(sizes).unwrap_or_default()
}

fn measure(sizes: impl Iterator<Item = usize>) -> io::Result<Vec<u32>> {
    let [sender, receiver] =
        [UdpEnd::bind(Ipv4Addr::LOCALHOST.into())?, UdpEnd::bind(Ipv4Addr::LOCALHOST.into())?];
    sender.connect(receiver.address()?)?;
    receiver.join_arrivals();
    let (bytes, mut least) = (vec![0; UdpEnd::DATAGRAM_MAX], 0);
    sizes
        .map(|size| {
            let datagram = [IoSlice::new(&bytes[..size.min(bytes.len())]), IoSlice::new(&[])];
            for count in [1, 2].into_iter().filter(|count| count * size <= bytes.len() || *count == 1) {
                sender.send_many(&[datagram; 2][..count])?;
                let charge = receiver.await_charge()?.div_ceil(count as u64);
                // A larger datagram never takes less.
                least = u32::try_from(charge).unwrap_or(u32::MAX).max(least);
            }
            Ok(least)
        })
        .collect()
}

impl UdpEnd {
    /// Waits for datagrams, returns the memory that they take, and drops them.
    fn await_charge(&self) -> io::Result<u64> {
        let mut poll_set = PollSet::default();
        poll_set.readable(self.as_fd());
        let until = Instant::now() + ARRIVAL_TIME;
        if !poll_set.wait(Some(until)).map_err(|e| io::Error::other(e.to_string()))? {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let charge = self.queued_charge()?;
        // Bytes beyond the room here are cut off.
        while self.receive(&mut [0; 32], &mut [], false, &mut Vec::new()).is_ok() {}
        Ok(charge)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_holds_as_many_as_were_charged() {
        let sizes = [71, 159, 1279, 9215, 36_863];
        let charges = loopback_charges(sizes.into_iter());
        if charges.is_empty() {
            // An emulated kernel does not report the memory.
            return;
        }
        for (size, charge) in sizes.into_iter().zip(charges) {
            assert!((size..=2 * size + 4096).contains(&(charge as usize)), "{size}: {charge}");
            let [sender, receiver] = [(); 2].map(|()| UdpEnd::bind(Ipv4Addr::LOCALHOST.into()).unwrap());
            sender.connect(receiver.address().unwrap()).unwrap();
            receiver.join_arrivals();
            let buffer = receiver.grow_receive_buffer(Some(200_000)).unwrap();
            let fitting = buffer / u64::from(charge);
            let bytes = vec![7; size];
            (0..fitting).for_each(|_| sender.send(&bytes, &[]).unwrap());
            let (mut received, mut payload, mut more) = (0, vec![0; 70_000], Vec::new());
            receiver.set_receive_timeout(ARRIVAL_TIME).unwrap();
            while received < fitting {
                receiver.receive(&mut [0; 8], &mut payload, true, &mut more).unwrap();
                received += 1 + more.len() as u64;
            }
            assert_eq!(receiver.queued_charge().unwrap(), 0);
        }
    }
}
