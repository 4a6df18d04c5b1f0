//! The thread that receives newcomers at a sending port and notices when they leave, so that the port's own
//! thread never has to.

use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::handshake::{self, Answer, Collector, Hello, Listening};
use crate::error::{Error, Result};
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::socket::{Listener, Socket, Visitor};

/// A newcomer must have introduced itself within this time.
const HELLO_TIME: Duration = Duration::from_secs(1);
/// Newcomers at a time; more wait in the kernel's queue.
const STRANGERS_MAX: usize = 64;

/// What a port does with newcomers.
pub(super) trait Greeter: Send + 'static {
    /// A newcomer introduced itself, with these descriptors. `Ok(Some(token))`: it was welcomed, tell [`Greeter::gone`] when it hangs
    /// up; `Ok(None)`: the greeter kept the socket for itself.
    ///
    /// # Errors
    /// Why it is turned down, in words for it.
    fn greet(&mut self, hello: Hello, socket: &Socket, fds: Vec<OwnedFd>) -> Result<Option<u64>, String>;

    /// A newcomer that was welcomed hung up.
    fn gone(&mut self, token: u64);
}

/// The running thread; ended and joined when dropped.
pub(super) struct Reception {
    shutdown: Doorbell,
    thread: Option<JoinHandle<()>>,
}

impl Reception {
    pub(super) fn open(listener: Listener, greeter: impl Greeter) -> Result<Self> {
        let shutdown = Doorbell::new()?;
        let bell = shutdown.clone();
        let thread = std::thread::Builder::new()
            .name("stripline-recept".into())
            .spawn(move || Desk { listener, greeter, strangers: Vec::new(), guests: Vec::new() }.serve(&bell))
            .map_err(|e| Error::system("cannot start a thread", e))?;
        Ok(Self { shutdown, thread: Some(thread) })
    }
}

impl Drop for Reception {
    fn drop(&mut self) {
        self.shutdown.ring();
        if let Some(thread) = self.thread.take() {
            // A panic there has been printed; nothing more can be done about it here.
            let _ = thread.join();
        }
    }
}

struct Stranger {
    socket: Socket,
    collector: Collector,
    fds: Vec<OwnedFd>,
    patience: Instant,
}

/// Who had something when the desk woke up.
struct Stirred {
    guests: Vec<bool>,
    door: bool,
}

struct Desk<G> {
    listener: Listener,
    greeter: G,
    strangers: Vec<Stranger>,
    guests: Vec<(u64, Socket)>,
}

impl<G: Greeter> Desk<G> {
    fn serve(mut self, shutdown: &Doorbell) {
        loop {
            let stirred = match self.sleep(shutdown) {
                Ok(Some(stirred)) => stirred,
                Ok(None) => return,
                Err(error) => {
                    crate::sys::complain!("stripline: {error}");
                    return;
                }
            };
            self.see_out(&stirred.guests);
            self.listen_to_strangers();
            if stirred.door {
                match self.listener.accept() {
                    Some(Visitor::Stranger(socket, reason)) => turn_down(&socket, &reason),
                    Some(Visitor::Welcome(socket)) => {
                        let patience = Instant::now() + HELLO_TIME;
                        let (collector, fds) = (Collector::default(), Vec::new());
                        self.strangers.push(Stranger { socket, collector, fds, patience });
                        self.listen_to_strangers();
                    }
                    // Out of descriptors, perhaps: the door goes on ringing, but need not be answered at once.
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
    }

    /// Sleeps until something happens; `None`: it is over.
    fn sleep(&self, shutdown: &Doorbell) -> Result<Option<Stirred>> {
        let (guests, strangers) = (self.guests.len(), self.strangers.len());
        let mut sleep = Sleep::default();
        sleep.readable(shutdown.as_fd());
        self.guests.iter().for_each(|(_, socket)| sleep.readable(socket.as_fd()));
        self.strangers.iter().for_each(|stranger| sleep.readable(stranger.socket.as_fd()));
        if strangers < STRANGERS_MAX {
            sleep.readable(self.listener.as_fd());
        }
        sleep.until(self.strangers.iter().map(|s| s.patience).min())?;
        let stirred = Stirred {
            guests: (0..guests).map(|index| sleep.fired(1 + index)).collect(),
            door: sleep.fired(1 + guests + strangers),
        };
        Ok((!sleep.fired(0)).then_some(stirred))
    }

    /// Guests have nothing to say after the handshake: whoever stirs has hung up or misbehaves.
    fn see_out(&mut self, fired: &[bool]) {
        let mut index = 0;
        let greeter = &mut self.greeter;
        self.guests.retain(|(token, socket)| {
            let stirred = fired.get(index).copied().unwrap_or(false);
            index += 1;
            if stirred {
                socket.close();
                greeter.gone(*token);
            }
            !stirred
        });
    }

    fn listen_to_strangers(&mut self) {
        let now = Instant::now();
        for mut stranger in std::mem::take(&mut self.strangers) {
            let its = Listening { socket: &stranger.socket, fds: &mut stranger.fds };
            match stranger.collector.read(its) {
                Ok(None) if now < stranger.patience => self.strangers.push(stranger),
                Ok(None) => answer(&stranger.socket, &Answer::Late("said nothing for a second".into())),
                Ok(Some(body)) => match self.admit(&body, &stranger.socket, stranger.fds) {
                    Ok(None) => {}
                    Ok(Some(token)) => self.guests.push((token, stranger.socket)),
                    Err(reason) => turn_down(&stranger.socket, &reason),
                },
                Err(deed) => turn_down(&stranger.socket, &deed),
            }
        }
    }

    fn admit(&mut self, body: &[u8], socket: &Socket, fds: Vec<OwnedFd>) -> Result<Option<u64>, String> {
        self.greeter.greet(handshake::decode(body)?, socket, fds)
    }
}

fn turn_down(socket: &Socket, reason: &str) {
    answer(socket, &Answer::Refused(reason.chars().take(1000).collect()));
}

/// Says why, as far as the socket takes it without blocking, and closes.
fn answer(mut socket: &Socket, why: &Answer) {
    if let Ok(bytes) = handshake::encode(why) {
        let _ = std::io::Write::write(&mut socket, &bytes);
    }
    socket.close();
}
