//! The start of the processes of one run.

use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use super::case::{Case, Group, Outcome, RunOutcome, SideJob, Subject};
use super::endpoints;
use crate::process::{Job, Launcher, NoResult};
use crate::{Problem, memory};

/// Runs a group once, in new processes on these processors. All of them have ended when this
/// returns.
pub(super) fn run(
    group: &Group,
    launcher: &mut Launcher<'_>,
    cpus: &[usize],
    seconds: f64,
) -> Result<RunOutcome, Problem> {
    let name = launcher.name();
    let page = memory::file(memory::PAGE)?;
    let supplies: Vec<Supplies> = group
        .cases
        .iter()
        .enumerate()
        .map(|(index, case)| match group.original(index) == index {
            true => Supplies::new(case, &format!("{name}-{index}")),
            false => Ok(Supplies::Shared(Vec::new())),
        })
        .collect::<Result<_, _>>()?;
    let job = |place| {
        let descriptors: Vec<Vec<RawFd>> = supplies.iter().map(|own| own.of(place)).collect();
        let inherited = descriptors.iter().flatten().copied().chain([page.as_raw_fd()]).collect();
        let (group, cpus, name) = (group.clone(), cpus.to_vec(), name.clone());
        let job = SideJob { group, place, cpus, seconds, name, page: page.as_raw_fd(), descriptors };
        (Job::Side(job), inherited)
    };
    let jobs = (0..group.processes()).map(job).collect();
    let (sides, others) = launcher
        .run::<Vec<Outcome>>(jobs, supplies, Duration::from_secs_f64(seconds), cpus.len())
        .map_err(NoResult::into_problem)?;
    Ok(RunOutcome { cases: Outcome::merged(sides), others })
}

/// Descriptors that the processes of a run inherit.
enum Supplies {
    /// Each process has all descriptors.
    Shared(Vec<OwnedFd>),
    /// Each process has separate descriptors: one for sending, and one for receiving.
    Own([[OwnedFd; 2]; 2]),
}

impl Supplies {
    fn new(case: &Case, name: &str) -> Result<Self, Problem> {
        let text = |e: std::io::Error| format!("cannot connect two sockets: {e}");
        Ok(match case.subject {
            Subject::Atomics | Subject::Futex => Self::Shared(vec![memory::file(memory::PAGE)?]),
            Subject::MinimalRing | Subject::DescriptorRing => {
                let bytes = endpoints::minimal::bytes(case);
                Self::Shared(vec![memory::file(bytes)?, memory::file(bytes)?])
            }
            Subject::Ring => {
                let bytes = endpoints::ring::bytes(case);
                Self::Shared(vec![memory::file(bytes)?, memory::file(bytes)?])
            }
            Subject::PosixQueue => Self::Shared(vec![
                endpoints::queue::open(&format!("{name}-there"), case)?,
                endpoints::queue::open(&format!("{name}-back"), case)?,
            ]),
            Subject::UnixSocket | Subject::TcpSocket | Subject::UdpSocket => {
                let pair = match case.subject {
                    Subject::UnixSocket => unix_pair,
                    Subject::TcpSocket => tcp_pair,
                    _ => endpoints::datagram::pair,
                };
                let ([near, far], [back_near, back_far]) = (pair().map_err(text)?, pair().map_err(text)?);
                Self::Own([[near, back_near], [back_far, far]])
            }
            Subject::UnixDuplex | Subject::TcpDuplex => {
                let pair = if case.subject == Subject::UnixDuplex { unix_pair } else { tcp_pair };
                let [near, far] = pair().map_err(text)?;
                let again = |end: &OwnedFd| end.try_clone().map_err(text);
                Self::Own([[again(&near)?, near], [again(&far)?, far]])
            }
            _ => Self::Shared(Vec::new()),
        })
    }

    fn of(&self, place: u32) -> Vec<RawFd> {
        match self {
            Self::Shared(all) => all.iter().map(AsRawFd::as_raw_fd).collect(),
            Self::Own(all) => all.get(place as usize).into_iter().flatten().map(AsRawFd::as_raw_fd).collect(),
        }
    }
}

fn unix_pair() -> std::io::Result<[OwnedFd; 2]> {
    let (near, far) = UnixStream::pair()?;
    Ok([near.into(), far.into()])
}

fn tcp_pair() -> std::io::Result<[OwnedFd; 2]> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok([near.into(), far.into()])
}
