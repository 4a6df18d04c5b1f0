//! Messages of the nodes of a domain to the host.
#![no_main]
#![allow(missing_docs)] // the macro makes items without docs

use std::io::Write;
use std::os::unix::net::UnixStream;

use libfuzzer_sys::fuzz_target;
use stripline::fuzzing::Domain;
use stripline_fuzz::Choices;

fuzz_target!(|data: &[u8]| {
    let mut choices = Choices(data);
    let mut domain = Domain::default();
    let mut peers: Vec<UnixStream> = Vec::new();
    let mut sent = 0;
    while !choices.is_empty() {
        let action = choices.byte();
        if peers.is_empty() || (action & 15 == 0 && peers.len() < 4) {
            let (ours, theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            domain.add(theirs);
            peers.push(ours);
            continue;
        }
        let index = usize::from(action >> 4) % peers.len();
        match action & 15 {
            1 => drop(peers.remove(index)),
            2 => domain.receive(),
            3..=5 => {
                let length = usize::from(choices.byte());
                let _ = peers[index].write_all(choices.bytes(length));
            }
            6 | 7 => {
                let word = format!(r#"{{"Withdraw":"{}"}}"#, choices.byte() & 7);
                let _ = peers[index].write_all(&message(word.as_bytes()));
            }
            8..=10 => {
                let (topic, address, key) = (choices.byte() & 3, choices.byte() & 7, choices.byte());
                let endpoint = format!(r#"{{"transport":"uds","address":"{address}","keys":[1,{key}]}}"#);
                let word =
                    format!(r#"{{"Offer":{{"topic":"{topic}","payload":"f32","endpoint":{endpoint}}}}}"#);
                let _ = peers[index].write_all(&message(word.as_bytes()));
                sent += 1;
            }
            _ => {
                let length = usize::from(choices.byte());
                let _ = peers[index].write_all(&message(choices.bytes(length)));
                sent += 1;
            }
        }
    }
    domain.receive();
    let (joined, learned, _) = domain.state();
    assert!(joined <= peers.len(), "a node that hung up is gone");
    assert!(learned.len() <= sent + data.len() / 4, "{} received, {sent} sent", learned.len());
    drop(peers);
    domain.receive();
    assert_eq!(domain.state().0, 0);
});

fn message(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text].concat()
}
