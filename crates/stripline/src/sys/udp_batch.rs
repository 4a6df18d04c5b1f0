//! Many datagrams with one system call. Where the kernel can, it cuts a run of equal datagrams out
//! of one send (`UDP_SEGMENT`, Linux 4.18), and joins datagrams that arrive together (`UDP_GRO`,
//! Linux 5.0). Elsewhere, and for datagrams of unequal size, `sendmmsg` and `recvmmsg` are used.

use std::io::{self, IoSlice};
use std::mem::zeroed;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::atomic::Ordering;

use super::udp::UdpEnd;

/// A datagram in two parts: the header and the payload.
pub(crate) type DatagramParts<'a> = [IoSlice<'a>; 2];

/// The maximum number of datagrams in a call. The kernel cuts no more out of one send.
pub(crate) const BATCH_MAX: usize = 64;

/// The maximum number of datagrams in a `recvmmsg`: each needs room for the largest datagram.
const RECEIVED_MAX: usize = 8;

/// Words for a control message with a number: a header of 16 bytes, and 8 bytes for the number.
const CONTROL_WORDS: usize = 3;

/// Errors with which a kernel or an interface refuses to cut. The option is missing, checksums are
/// not computed, the limit is lower, or the pieces no longer fit the path.
const REFUSALS: [i32; 5] = [libc::EIO, libc::EINVAL, libc::EMSGSIZE, libc::ENOPROTOOPT, libc::EOPNOTSUPP];

impl UdpEnd {
    /// Detects whether the kernel can cut a send into datagrams.
    pub(super) fn detect_cuts(&self) {
        let has_option = self.set_option::<libc::c_int>(libc::SOL_UDP, libc::UDP_SEGMENT, &0).is_ok();
        // Relaxed: a hint. Without the kernel's help, a call has more messages.
        self.cuts.store(has_option, Ordering::Relaxed);
    }

    /// Makes the kernel join datagrams that arrive together, if it can.
    pub(crate) fn join_arrivals(&self) {
        let joins = self.set_option::<libc::c_int>(libc::SOL_UDP, libc::UDP_GRO, &1).is_ok();
        // Relaxed: only the receiver reads it.
        self.joins.store(joins, Ordering::Relaxed);
    }

    /// Sends datagrams to the connected end, with as few system calls as possible. Returns how many
    /// were sent or count as lost. Never blocks.
    ///
    /// # Errors
    /// `WouldBlock` if there was no room for any datagram.
    pub(crate) fn send_many(&self, datagrams: &[DatagramParts<'_>]) -> io::Result<usize> {
        let (mut sent, mut failed_at) = (0, None);
        while sent < datagrams.len() {
            let rest = &datagrams[sent..];
            // Relaxed: as above.
            let cuts = self.cuts.load(Ordering::Relaxed);
            let error = match send_runs(self.socket.as_raw_fd(), rest, cuts) {
                Ok(more) => {
                    sent += more;
                    continue;
                }
                Err(error) => error,
            };
            let run = run_length(rest, cuts);
            match error.kind() {
                io::ErrorKind::WouldBlock if sent == 0 => return Err(error),
                io::ErrorKind::WouldBlock => break,
                io::ErrorKind::Interrupted => {}
                _ if run > 1 && error.raw_os_error().is_some_and(|code| REFUSALS.contains(&code)) => {
                    self.cuts.store(false, Ordering::Relaxed);
                }
                // An error of an earlier datagram is returned once, and this call sends nothing
                // then.
                _ if failed_at != Some(sent) => failed_at = Some(sent),
                _ => sent += run,
            }
        }
        Ok(sent)
    }

    /// Receives a datagram in two parts, and returns the size in bytes. Further datagrams that came
    /// with it are whole in `payload`, at the places in `more`.
    ///
    /// # Errors
    /// `WouldBlock` if nothing has arrived; with `blocks`, if nothing arrives within the time
    /// limit.
    pub(crate) fn receive(
        &self,
        header: &mut [u8],
        payload: &mut [u8],
        blocks: bool,
        more: &mut Vec<Range<usize>>,
    ) -> io::Result<usize> {
        more.clear();
        // Relaxed: as above.
        if self.joins.load(Ordering::Relaxed) {
            self.receive_joined(header, payload, blocks, more)
        } else {
            self.receive_several(header, payload, blocks, more)
        }
    }

    fn receive_joined(
        &self,
        header: &mut [u8],
        payload: &mut [u8],
        blocks: bool,
        more: &mut Vec<Range<usize>>,
    ) -> io::Result<usize> {
        let header_bytes = header.len();
        let mut parts = [part(header), part(payload)];
        let mut control = [0_u64; CONTROL_WORDS];
        // SAFETY: a message of zeros is a message without parts.
        let mut message: libc::msghdr = unsafe { zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len() as _);
        (message.msg_control, message.msg_controllen) =
            (control.as_mut_ptr().cast(), size_of_val(&control) as _);
        let flags = if blocks { 0 } else { libc::MSG_DONTWAIT };
        // SAFETY: the descriptor is open. The message and all that it points to live for the call.
        let received = unsafe { libc::recvmsg(self.socket.as_raw_fd(), &mut message, flags) };
        let Ok(received) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
        // SAFETY: the kernel has filled the message in.
        let Some(each) = (unsafe { joined_bytes(&message) }).filter(|each| received > *each) else {
            return Ok(received);
        };
        if each >= header_bytes {
            let starts = (each..received).step_by(each);
            more.extend(starts.map(|from| from - header_bytes..received.min(from + each) - header_bytes));
        }
        Ok(each)
    }

    fn receive_several(
        &self,
        header: &mut [u8],
        payload: &mut [u8],
        blocks: bool,
        more: &mut Vec<Range<usize>>,
    ) -> io::Result<usize> {
        let count = (payload.len() / Self::DATAGRAM_MAX).clamp(1, RECEIVED_MAX);
        let place = if count > 1 { Self::DATAGRAM_MAX } else { payload.len() };
        let mut parts = [part(&mut []); RECEIVED_MAX + 1];
        parts[0] = part(header);
        let mut places = payload.chunks_mut(place.max(1));
        (1..=count).for_each(|index| parts[index] = places.next().map_or(part(&mut []), part));
        // SAFETY: a message of zeros is a message without parts.
        let mut messages: [libc::mmsghdr; RECEIVED_MAX] = unsafe { zeroed() };
        for (index, message) in messages[..count].iter_mut().enumerate() {
            // The first message has the header's part and a payload part, the others one part each.
            let (from, length) = if index == 0 { (0, 2) } else { (index + 1, 1) };
            (message.msg_hdr.msg_iov, message.msg_hdr.msg_iovlen) = (&raw mut parts[from], length as _);
        }
        let flags = if blocks { libc::MSG_WAITFORONE } else { libc::MSG_DONTWAIT };
        let (fd, messages_at) = (self.socket.as_raw_fd(), messages.as_mut_ptr());
        // SAFETY: the descriptor is open. The messages and all that they point to live for the
        // call.
        let received =
            unsafe { libc::recvmmsg(fd, messages_at, count as _, flags as _, std::ptr::null_mut()) };
        let Ok(received) = usize::try_from(received) else { return Err(io::Error::last_os_error()) };
        for (index, message) in messages[..received].iter().enumerate().skip(1) {
            more.push(index * place..index * place + message.msg_len as usize);
        }
        Ok(messages[0].msg_len as usize)
    }
}

/// Returns how many datagrams, from the first one on, have the same size and therefore leave in one
/// send. The last of them may be shorter. Without `cuts`, the run is one datagram.
fn run_length(datagrams: &[DatagramParts<'_>], cuts: bool) -> usize {
    let bytes = |parts: &DatagramParts<'_>| parts[0].len() + parts[1].len();
    let Some((first, rest)) = datagrams.split_first().filter(|_| cuts) else { return datagrams.len().min(1) };
    let (each, mut run, mut all) = (bytes(first), 1, bytes(first));
    for parts in rest {
        let size = bytes(parts);
        if size > each || run == BATCH_MAX || all + size > UdpEnd::DATAGRAM_MAX {
            break;
        }
        (run, all) = (run + 1, all + size);
        if size < each {
            break;
        }
    }
    run
}

/// Sends datagrams with one call, and returns how many were sent.
fn send_runs(fd: i32, datagrams: &[DatagramParts<'_>], cuts: bool) -> io::Result<usize> {
    let datagrams = &datagrams[..datagrams.len().min(BATCH_MAX)];
    let (mut runs, mut taken) = ([0_u8; BATCH_MAX], 0);
    let mut controls = [[0_u64; CONTROL_WORDS]; BATCH_MAX];
    // SAFETY: a message of zeros is a message without parts.
    let mut messages: [libc::mmsghdr; BATCH_MAX] = unsafe { zeroed() };
    let mut count = 0;
    while taken < datagrams.len() {
        let run = run_length(&datagrams[taken..], cuts);
        let message = &mut messages[count].msg_hdr;
        let parts = datagrams[taken..][..run].as_flattened();
        // An `IoSlice` is an `iovec`, and the kernel only reads it.
        message.msg_iov = parts.as_ptr().cast_mut().cast();
        message.msg_iovlen = parts.len() as _;
        if run > 1 {
            let each = parts[0].len() + parts[1].len();
            let control = &mut controls[count];
            (message.msg_control, message.msg_controllen) =
                (control.as_mut_ptr().cast(), size_of_val(control) as _);
            // SAFETY: the control words have room for the header and a number of two bytes.
            unsafe { set_segment(message, each as u16) };
        }
        runs[count] = run as u8;
        (count, taken) = (count + 1, taken + run);
    }
    let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
    if count == 1 {
        // SAFETY: the message and all that it points to live for the call.
        let sent = unsafe { libc::sendmsg(fd, &messages[0].msg_hdr, flags) };
        return if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(taken) };
    }
    // SAFETY: as above, for `count` messages.
    let sent = unsafe { libc::sendmmsg(fd, messages.as_mut_ptr(), count as _, flags as _) };
    let Ok(sent) = usize::try_from(sent) else { return Err(io::Error::last_os_error()) };
    Ok(runs[..sent].iter().map(|run| usize::from(*run)).sum())
}

fn part(bytes: &mut [u8]) -> libc::iovec {
    libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() }
}

/// Makes the kernel cut a message into datagrams of `each` bytes.
///
/// # Safety
/// The caller must give the message a control buffer of [`CONTROL_WORDS`].
unsafe fn set_segment(message: &mut libc::msghdr, each: u16) {
    // SAFETY: the caller's buffer has room for one control message with a number.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(message);
        (*control).cmsg_level = libc::SOL_UDP;
        (*control).cmsg_type = libc::UDP_SEGMENT;
        (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as _) as _;
        libc::CMSG_DATA(control).cast::<u16>().write_unaligned(each);
    }
}

/// Returns the size of each datagram but the last, if the kernel has joined several.
///
/// # Safety
/// The caller must pass a message that the kernel has filled in, together with the control buffer.
unsafe fn joined_bytes(message: &libc::msghdr) -> Option<usize> {
    // SAFETY: the caller guarantees it; a control message with a number has all its bytes.
    let each = unsafe {
        let control = libc::CMSG_FIRSTHDR(message).as_ref()?;
        let has_number = control.cmsg_len as usize >= libc::CMSG_LEN(size_of::<libc::c_int>() as _) as usize;
        if (control.cmsg_level, control.cmsg_type) != (libc::SOL_UDP, libc::UDP_GRO) || !has_number {
            return None;
        }
        libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned()
    };
    usize::try_from(each).ok().filter(|each| *each > 0)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn ends() -> [UdpEnd; 2] {
        let [sender, receiver] = [(); 2].map(|()| UdpEnd::bind(Ipv4Addr::LOCALHOST.into()).unwrap());
        sender.connect(receiver.address().unwrap()).unwrap();
        receiver.set_receive_timeout(std::time::Duration::from_secs(10)).unwrap();
        [sender, receiver]
    }

    fn datagrams(sizes: &[usize]) -> Vec<Vec<u8>> {
        sizes.iter().enumerate().map(|(number, bytes)| vec![number as u8; *bytes]).collect()
    }

    fn parts(datagram: &[u8]) -> DatagramParts<'_> {
        let (header, payload) = datagram.split_at(4);
        [IoSlice::new(header), IoSlice::new(payload)]
    }

    /// Receives `count` datagrams, and returns them with the number of calls.
    fn receive(end: &UdpEnd, count: usize) -> (Vec<Vec<u8>>, usize) {
        let (mut received, mut calls) = (Vec::new(), 0);
        let (mut payload, mut more) = (vec![0; 256 * 1024], Vec::new());
        while received.len() < count {
            let mut header = [0; 4];
            let first = end.receive(&mut header, &mut payload, true, &mut more).unwrap();
            received.push([&header[..], &payload[..first - 4]].concat());
            received.extend(more.iter().map(|place| payload[place.clone()].to_vec()));
            calls += 1;
        }
        let empty = end.receive(&mut [0; 4], &mut payload, false, &mut more).unwrap_err();
        assert_eq!((empty.kind(), more.is_empty()), (io::ErrorKind::WouldBlock, true));
        (received, calls)
    }

    #[test]
    fn datagrams_of_all_lengths_arrive_alone_and_in_order() {
        let equal = [1000; 20];
        let sizes: [&[usize]; 6] = [
            &[4],
            &equal,
            &[90, 90, 30],
            &[30, 90, 90],
            &[60_000, 60_000],
            &[4, 9, 9, 9, 1400, 1400, 1400, 1400, 8, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 8000, 5],
        ];
        for sizes in sizes {
            for [cuts, joins] in [[true, true], [true, false], [false, true], [false, false]] {
                let [sender, receiver] = ends();
                if !cuts {
                    sender.cuts.store(false, Ordering::Relaxed);
                }
                if joins {
                    receiver.join_arrivals();
                }
                let datagrams = datagrams(sizes);
                let sent: Vec<_> = datagrams.iter().map(|datagram| parts(datagram)).collect();
                assert_eq!(sender.send_many(&sent).unwrap(), sent.len());
                assert_eq!(receive(&receiver, sizes.len()).0, datagrams, "{cuts} {joins}");
            }
        }
    }

    #[test]
    fn a_run_takes_one_call_where_the_kernel_joins_it() {
        let [sender, receiver] = ends();
        receiver.join_arrivals();
        let kernel_helps = [&sender.cuts, &receiver.joins].map(|flag| flag.load(Ordering::Relaxed));
        let datagrams = datagrams(&[500; 40]);
        let sent: Vec<_> = datagrams.iter().map(|datagram| parts(datagram)).collect();
        assert_eq!(sender.send_many(&sent).unwrap(), 40);
        let (received, calls) = receive(&receiver, 40);
        assert_eq!(received, datagrams);
        assert_eq!(calls == 1, kernel_helps == [true, true], "{calls} calls");
    }

    /// Checks that a send may be refused, here by a socket without checksums. An interface that
    /// cannot cut refuses in the same way.
    #[test]
    fn a_refusal_to_cut_is_remembered_and_nothing_is_lost() {
        let [sender, receiver] = ends();
        sender.set_option::<libc::c_int>(libc::SOL_SOCKET, libc::SO_NO_CHECK, &1).unwrap();
        let datagrams = datagrams(&[500; 10]);
        let sent: Vec<_> = datagrams.iter().map(|datagram| parts(datagram)).collect();
        for _ in 0..2 {
            assert_eq!(sender.send_many(&sent).unwrap(), 10);
            assert_eq!(receive(&receiver, 10).0, datagrams);
            assert!(!sender.cuts.load(Ordering::Relaxed));
        }
    }

    #[test]
    fn an_error_of_datagrams_before_costs_none() {
        let [sender, receiver] = ends();
        let address = receiver.address().unwrap();
        drop(receiver);
        let datagrams = datagrams(&[500, 500, 400, 500, 300]);
        let sent: Vec<_> = datagrams.iter().map(|datagram| parts(datagram)).collect();
        // No socket is open there, so the datagrams count as lost.
        assert_eq!(sender.send_many(&sent).unwrap(), 5);
        let std::net::SocketAddr::V4(address) = address else { panic!("of IPv4") };
        let receiver = UdpEnd::bind_to(address).unwrap();
        receiver.set_receive_timeout(std::time::Duration::from_secs(10)).unwrap();
        assert_eq!(sender.send_many(&sent).unwrap(), 5);
        assert_eq!(receive(&receiver, 5).0, datagrams);
    }

    #[test]
    fn tiny_datagrams_of_others_are_no_trouble() {
        let [sender, receiver] = ends();
        receiver.join_arrivals();
        let tiny = [IoSlice::new(b"a"), IoSlice::new(b"b")];
        assert_eq!(sender.send_many(&[tiny; 30]).unwrap(), 30);
        let (mut payload, mut more) = (vec![0; 1024], Vec::new());
        let received = receiver.receive(&mut [0; 24], &mut payload, true, &mut more).unwrap();
        assert_eq!((received, more.len()), (2, 0));
    }
}
