//! How nodes find each other without a daemon, a broker or a file.
//!
//! All nodes of a domain know one abstract Unix name. Whoever binds it first is the host: the others connect,
//! tell it their publishers and hear of everybody else's. The domain is one user's, or one group's where it names
//! one: each side asks the kernel who the other is. When the host dies, the kernel tells all of them at
//! once; one binds the name anew, the rest connect to it and repeat what they have to offer. Links between
//! publishers and subscribers are not touched by this.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::payload::TypeName;
use crate::sys::credentials::Group;
use crate::sys::doorbell::{Doorbell, Sleep};
use crate::sys::fork::Descriptor;
use crate::sys::socket::{self, Listener, Socket, Visitor};
use crate::transport::Endpoint;

/// The longest message, in bytes.
const MESSAGE_MAX: usize = 8192;
/// Nodes of a domain that the host serves.
const GUESTS_MAX: usize = 1024;
/// Publishers that one node may announce.
const OFFERS_MAX: usize = 4096;
/// Between two attempts to become or to find a host.
const RETRY: Duration = Duration::from_millis(5);

/// One publisher that subscribers may connect to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub topic: String,
    pub payload: TypeName,
    pub endpoint: Endpoint,
}

#[derive(Debug, Serialize, Deserialize)]
enum Word {
    Offer(Offer),
    Withdraw(String),
}

/// What the node's thread does with the news.
pub(crate) trait Household: Send {
    /// This node's own publishers, all of them, and whether the node is over.
    fn offers(&mut self) -> (Vec<Offer>, bool);
    /// Somebody's publisher, perhaps told before.
    fn learn(&mut self, offer: Offer);
    /// A publisher that is gone.
    fn forget(&mut self, address: &str);
}

/// Runs until the household is over; `bell` rings when its offers changed.
pub(super) fn run(name: &str, group: Option<Group>, bell: &Doorbell, mut household: impl Household) {
    let mut last_words = Instant::now();
    loop {
        let outcome = match Listener::unix(name, group) {
            Ok(listener) => {
                Host { listener, guests: Vec::new(), own: Vec::new() }.serve(bell, &mut household)
            }
            Err(_) => match socket::connect_unix(name, group) {
                Ok(stream) => visit(Guest::new(stream), bell, &mut household),
                // The name is taken, but not by us or nobody listens yet: say so now and then, and try again.
                Err(error) => {
                    if last_words.elapsed() > Duration::from_secs(5) {
                        crate::sys::complain!("stripline: cannot reach the other nodes: {error}");
                        last_words = Instant::now();
                    }
                    let mut sleep = Sleep::default();
                    sleep.readable(bell.as_fd());
                    // The bell may keep ringing while we wait: its news is kept for whoever we find.
                    sleep.until(Some(Instant::now() + RETRY)).map(|_| household.offers().1)
                }
            },
        };
        match outcome {
            Ok(false) => {}
            Ok(true) => return,
            Err(error) => {
                crate::sys::complain!("stripline: nodes cannot find each other any more: {error}");
                return;
            }
        }
    }
}

/// As [`run`], but never as the host: until that one is gone.
pub(super) fn look_in(name: &str, group: Option<Group>, bell: &Doorbell, mut household: impl Household) {
    if let Ok(stream) = socket::connect_unix(name, group) {
        let _ = visit(Guest::new(stream), bell, &mut household);
    }
}

/// Tells a host what there is and hears the news; true: the node is over; false: the host is.
fn visit(mut host: Guest, bell: &Doorbell, household: &mut impl Household) -> Result<bool> {
    let mut told: Vec<Offer> = Vec::new();
    loop {
        let (offers, over) = household.offers();
        if over {
            return Ok(true);
        }
        if !host.tell_changes(&mut told, &offers) {
            return Ok(false);
        }
        let mut sleep = Sleep::default();
        sleep.readable(bell.as_fd());
        sleep.readable(host.stream.as_fd());
        sleep.until(None)?;
        bell.quiet();
        let Some(words) = host.hear() else { return Ok(false) };
        for word in words {
            match word {
                Word::Offer(offer) => household.learn(offer),
                Word::Withdraw(address) => household.forget(&address),
            }
        }
    }
}

pub(crate) struct Host {
    pub(crate) listener: Listener,
    pub(crate) guests: Vec<Guest>,
    pub(crate) own: Vec<Offer>,
}

impl Host {
    /// Serves until the household is over.
    fn serve(mut self, bell: &Doorbell, household: &mut impl Household) -> Result<bool> {
        loop {
            let (offers, over) = household.offers();
            if over {
                return Ok(true);
            }
            let mut told = std::mem::take(&mut self.own);
            // A guest that does not listen is sent away; it comes back when it does.
            self.guests.retain_mut(|guest| guest.tell_changes(&mut told.clone(), &offers));
            told.clone_from(&offers);
            self.own = told;
            self.own.iter().for_each(|offer| household.learn(offer.clone()));

            let mut sleep = Sleep::default();
            sleep.readable(bell.as_fd());
            sleep.readable(self.listener.as_fd());
            self.guests.iter().for_each(|guest| sleep.readable(guest.stream.as_fd()));
            sleep.until(None)?;
            bell.quiet();
            self.hear_all(household);
            if let Some(Visitor::Welcome(Socket::Unix(stream))) = self.listener.accept()
                && self.guests.len() < GUESTS_MAX
            {
                self.welcome(Guest::new(stream));
            }
        }
    }

    pub(crate) fn welcome(&mut self, mut guest: Guest) {
        let known: Vec<Offer> =
            self.own.iter().chain(self.guests.iter().flat_map(|guest| &guest.offers)).cloned().collect();
        if guest.tell_changes(&mut Vec::new(), &known) {
            self.guests.push(guest);
        }
    }

    pub(crate) fn hear_all(&mut self, household: &mut impl Household) {
        let mut index = 0;
        while index < self.guests.len() {
            let heard = self.guests[index].hear();
            let gone = heard.is_none();
            let mut words = heard.unwrap_or_default();
            if gone {
                let guest = self.guests.swap_remove(index);
                words = guest.offers.into_iter().map(|o| Word::Withdraw(o.endpoint.address)).collect();
            } else {
                index += 1;
            }
            for word in words {
                let speaker = (!gone).then(|| index - 1);
                if !self.pass_on(speaker, &word) {
                    continue;
                }
                match word {
                    Word::Offer(offer) => household.learn(offer),
                    Word::Withdraw(address) => household.forget(&address),
                }
            }
        }
    }

    /// Tells the others; false when the word is nothing new, or one offer too many.
    fn pass_on(&mut self, speaker: Option<usize>, word: &Word) -> bool {
        if let Some(speaker) = speaker {
            let offers = &mut self.guests[speaker].offers;
            match word {
                // What is not remembered could not be withdrawn when its owner dies.
                Word::Offer(offer) if offers.len() >= OFFERS_MAX || offers.contains(offer) => return false,
                Word::Offer(offer) => offers.push(offer.clone()),
                Word::Withdraw(address) => offers.retain(|offer| offer.endpoint.address != *address),
            }
        }
        for (index, guest) in self.guests.iter_mut().enumerate() {
            if Some(index) != speaker {
                // One that does not listen is found out at its next turn to be heard.
                let _ = guest.tell(word);
            }
        }
        true
    }
}

/// The other end of a conversation.
pub(crate) struct Guest {
    stream: Descriptor<UnixStream>,
    heard: Vec<u8>,
    offers: Vec<Offer>,
}

impl Guest {
    pub(crate) fn new(stream: Descriptor<UnixStream>) -> Self {
        // A stream that cannot be made non-blocking fails at its first use.
        let _ = stream.set_nonblocking(true);
        Self { stream, heard: Vec::new(), offers: Vec::new() }
    }

    /// Tells what is new in `now` and what is gone from `told`; false: the other end does not listen.
    fn tell_changes(&mut self, told: &mut Vec<Offer>, now: &[Offer]) -> bool {
        let gone = told.iter().filter(|offer| !now.contains(offer));
        let withdrawn: Vec<Word> = gone.map(|offer| Word::Withdraw(offer.endpoint.address.clone())).collect();
        let new = now.iter().filter(|offer| !told.contains(offer)).cloned().map(Word::Offer);
        let all: Vec<Word> = withdrawn.into_iter().chain(new).collect();
        *told = now.to_vec();
        all.iter().all(|word| self.tell(word))
    }

    fn tell(&mut self, word: &Word) -> bool {
        let Ok(text) = serde_json::to_vec(word) else { return true };
        let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&text);
        // Messages are few and small: an end whose buffer is full has stopped listening.
        matches!((&*self.stream).write(&bytes), Ok(written) if written == bytes.len())
    }

    /// What has been said since; `None`: the other end hung up or talks nonsense.
    fn hear(&mut self) -> Option<Vec<Word>> {
        let mut piece = [0; 4096];
        loop {
            match (&*self.stream).read(&mut piece) {
                Ok(0) => return None,
                Ok(read) => self.heard.extend_from_slice(&piece[..read]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
            if self.heard.len() > 64 * MESSAGE_MAX {
                break;
            }
        }
        let mut words = Vec::new();
        let mut rest = &self.heard[..];
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let length = u32::from_le_bytes(*length) as usize;
            if length > MESSAGE_MAX {
                return None;
            }
            let Some(text) = after.get(..length) else { break };
            words.push(serde_json::from_slice(text).ok()?);
            rest = &after[length..];
        }
        self.heard = rest.to_vec();
        Some(words)
    }
}
