//! The connected clients. The number of each kind is limited, but a newcomer always gets a place:
//! it replaces the client of the same kind for which the server has waited longest.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::stream::ClientStream;

/// The most clients of all kinds at a time, including clients that have lost their places and are
/// about to end.
pub(super) const CLIENTS_MAX: usize = 128;
/// The time that a newcomer waits for the end of another client when there are [`CLIENTS_MAX`].
const PLACE_TIME: Duration = Duration::from_millis(500);
/// The time that the server waits for the threads of the clients at the end.
const END_TIME: Duration = Duration::from_secs(5);

/// The kind of a client. Each kind has places that no other kind can take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientKind {
    /// The client has not shown the token, or needs no token for a file of the page.
    WithoutToken,
    WithToken,
    /// The client has shown the token and receives a spectrum.
    WithSpectrum,
}

impl ClientKind {
    /// Returns the number of clients of this kind that may be connected at a time.
    const fn places(self) -> usize {
        match self {
            Self::WithoutToken => 32,
            Self::WithToken => 64,
            Self::WithSpectrum => 16,
        }
    }
}

/// The connected clients.
#[derive(Default)]
pub(super) struct ClientTable {
    /// The entries, the oldest first.
    entries: Mutex<Vec<ClientEntry>>,
    changed: Condvar,
}

struct ClientEntry {
    number: u64,
    stream: Arc<ClientStream>,
    /// `None`: the client has lost the place, and the thread for it is about to end.
    kind: Option<ClientKind>,
}

/// A client in the table, until it is dropped.
pub(super) struct Client {
    table: Arc<ClientTable>,
    number: u64,
    pub stream: Arc<ClientStream>,
}

impl ClientTable {
    /// Adds a client without the token. No other client may have the same `number`. Returns `None`
    /// if too many clients are about to end.
    pub(super) fn add(self: &Arc<Self>, number: u64, stream: Arc<ClientStream>) -> Option<Client> {
        let mut entries = self.lock();
        let deadline = Instant::now() + PLACE_TIME;
        while entries.len() >= CLIENTS_MAX {
            entries = self.wait(entries, deadline)?;
        }
        let kind = ClientKind::WithoutToken;
        make_room(&mut entries, kind);
        entries.push(ClientEntry { number, stream: Arc::clone(&stream), kind: Some(kind) });
        Some(Client { table: Arc::clone(self), number, stream })
    }

    /// Closes all clients, and waits for their threads.
    pub(super) fn close_all(&self) {
        let mut entries = self.lock();
        entries.iter().for_each(|entry| entry.stream.close());
        let deadline = Instant::now() + END_TIME;
        while !entries.is_empty() {
            match self.wait(entries, deadline) {
                Some(remaining) => entries = remaining,
                None => break,
            }
        }
    }

    /// Waits for the end of a client. Returns `None` after the deadline.
    fn wait<'t>(
        &self,
        entries: MutexGuard<'t, Vec<ClientEntry>>,
        deadline: Instant,
    ) -> Option<MutexGuard<'t, Vec<ClientEntry>>> {
        let remaining = deadline.saturating_duration_since(Instant::now());
        if remaining.is_zero() {
            return None;
        }
        Some(self.changed.wait_timeout(entries, remaining).unwrap_or_else(PoisonError::into_inner).0)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ClientEntry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Client {
    /// Gives the client a place of another kind.
    ///
    /// # Errors
    /// The client has lost the place in the meantime.
    pub(super) fn become_one(&self, kind: ClientKind) -> io::Result<()> {
        let mut entries = self.table.lock();
        let own = entries.iter().position(|entry| entry.number == self.number && entry.kind.is_some());
        let own = own.ok_or(io::ErrorKind::ConnectionAborted)?;
        if entries[own].kind != Some(kind) {
            make_room(&mut entries, kind);
            entries[own].kind = Some(kind);
        }
        Ok(())
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.table.lock().retain(|entry| entry.number != self.number);
        self.table.changed.notify_all();
    }
}

/// Makes room for a newcomer of this kind. If the server waits for no client of the kind, the
/// oldest client is closed. A page then opens the stream of events again.
fn make_room(entries: &mut [ClientEntry], kind: ClientKind) {
    let of_kind = || entries.iter().enumerate().filter(|(_, entry)| entry.kind == Some(kind));
    if of_kind().count() < kind.places() {
        return;
    }
    if let Some((index, _)) = of_kind().min_by_key(|(_, entry)| entry.stream.eviction_order()) {
        entries[index].stream.close();
        entries[index].kind = None;
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;

    use super::ClientKind::{WithSpectrum, WithToken, WithoutToken};
    use super::*;

    /// A table, and the number of clients that have been added.
    #[derive(Default)]
    struct Clients {
        table: Arc<ClientTable>,
        added: u64,
    }

    impl Clients {
        fn add(&mut self, kind: ClientKind) -> (Client, TcpStream) {
            let (stream, end) = ClientStream::pair();
            self.added += 1;
            let client = self.table.add(self.added, Arc::new(stream)).unwrap();
            client.become_one(kind).unwrap();
            (client, end)
        }

        /// Fills all places of a kind, and returns the clients.
        fn fill(&mut self, kind: ClientKind) -> Vec<(Client, TcpStream)> {
            (0..kind.places()).map(|_| self.add(kind)).collect()
        }
    }

    fn has_place((client, _): &(Client, TcpStream)) -> bool {
        client.table.lock().iter().any(|entry| entry.number == client.number && entry.kind.is_some())
    }

    #[test]
    fn the_client_that_has_been_waited_for_longest_gives_its_place_up() {
        for kind in [WithoutToken, WithToken, WithSpectrum] {
            let mut clients = Clients::default();
            let mut all = clients.fill(kind);
            // The two oldest clients take the data that is sent. Of the others, the youngest
            // stalled first.
            for (client, _) in &all {
                client.stream.send(b"event").unwrap();
            }
            for (client, _) in all[2..].iter().rev() {
                client.stream.fill();
            }
            for number in (2..kind.places()).rev() {
                let newcomer = clients.add(kind);
                newcomer.0.stream.send(b"event").unwrap();
                assert!(has_place(&newcomer) && !has_place(&all[number]), "{kind:?} {number}");
                assert!(all[..number].iter().all(has_place), "{kind:?} {number}");
                all[number] = newcomer;
            }
            // The server waits for no client, so the oldest one is closed.
            let newcomer = clients.add(kind);
            assert!(
                has_place(&newcomer) && !has_place(&all[0]) && all[1..].iter().all(has_place),
                "{kind:?}"
            );
            assert!(all[0].0.become_one(kind).is_err());
        }
    }

    #[test]
    fn no_kind_takes_places_of_another() {
        let kinds = [WithoutToken, WithToken, WithSpectrum];
        for flood in kinds {
            let mut clients = Clients::default();
            let others: Vec<_> = kinds
                .into_iter()
                .filter(|kind| *kind != flood && *kind != WithoutToken)
                .flat_map(|kind| clients.fill(kind))
                .collect();
            let flooding: Vec<_> = (others.len()..CLIENTS_MAX).map(|_| clients.add(flood)).collect();
            assert_eq!(flooding.iter().filter(|it| has_place(it)).count(), flood.places(), "{flood:?}");
            assert!(others.iter().all(has_place), "{flood:?}");
        }
    }

    #[test]
    fn clients_that_do_not_end_count_until_they_do() {
        let mut clients = Clients::default();
        let mut all: Vec<_> = (0..CLIENTS_MAX).map(|_| clients.add(WithoutToken)).collect();
        let number = clients.added + 1;
        let newcomer = Arc::new(ClientStream::pair().0);
        assert!(clients.table.add(number, Arc::clone(&newcomer)).is_none());
        all.pop();
        assert!(clients.table.add(number, newcomer).is_some());
    }
}
