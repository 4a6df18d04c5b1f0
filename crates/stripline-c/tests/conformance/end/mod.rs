//! The end in Rust: executes commands line by line. `bindings/conformance/README.md` describes
//! them.

mod calls;
mod messages;
mod ports;

use std::collections::BTreeMap;
use std::io::BufRead;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use stripline::call::{Server, ServiceClient};
use stripline::node::{Node, Topics, Waker};
use stripline::payload::{Dynamic, SampleType, TypeName};
use stripline::{Error, ErrorCode, StreamInfo};

use crate::test_process::MARK;
use ports::{Held, Input, Output, Sending};

/// A time limit that only ends a hang.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Executes the commands of standard input, until the input ends.
pub fn run() {
    let (forward, commands) = channel();
    let waker: Arc<Mutex<Option<Waker>>> = Arc::default();
    let waker_of_port = Arc::clone(&waker);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            // `wake` is executed while another command waits.
            if line == "wake" {
                waker_of_port.lock().unwrap().as_ref().unwrap().wake();
            } else if forward.send(line).is_err() {
                return;
            }
        }
        // The driver has ended, perhaps while a command waits.
        std::process::exit(0);
    });
    let mut end = End { waker, ..End::default() };
    println!("\n{MARK} ready");
    while let Ok(line) = commands.recv() {
        let words: Vec<&str> = line.split(' ').collect();
        let answer = end.perform(&words, &commands).unwrap_or_else(|failure| failure.to_string());
        println!("{MARK} {answer}");
    }
}

/// A failure in printed form: the word of the code, and the message.
#[derive(Debug)]
pub struct Failure {
    code: &'static str,
    message: String,
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "error {} {}", self.code, self.message.replace('\n', " "))
    }
}

impl Failure {
    fn new(code: ErrorCode, message: impl std::fmt::Display) -> Self {
        Self { code: code.word(), message: message.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(error.code(), &error)
    }
}

/// The outcome of a command.
pub type Answer = Result<String, Failure>;

#[derive(Default)]
struct End {
    clients: BTreeMap<String, ServiceClient>,
    servers: BTreeMap<String, Server<'static>>,
    outputs: BTreeMap<String, Box<dyn Output>>,
    inputs: BTreeMap<String, Box<dyn Input>>,
    held: BTreeMap<String, Box<dyn Held>>,
    waker: Arc<Mutex<Option<Waker>>>,
    node: Option<Node>,
}

impl End {
    /// Executes a command. `next` is for commands that wait for the next line.
    fn perform(&mut self, words: &[&str], next: &Receiver<String>) -> Answer {
        let ok = Ok("ok".to_string());
        match *words {
            ["node", domain, ref topics @ ..] => {
                let topics = Topics::parse(&topics.join(" ").replace(';', "\n"))?;
                self.node = Some(Node::join(domain, topics)?);
            }
            ["close"] => self.close(),
            ["publish", name, topic, samples] => {
                let node = self.node();
                let output = if samples == "u8" {
                    ports::output(node.publisher::<u8>(topic)?, topic)
                } else {
                    ports::output(node.publisher::<Dynamic>((topic, &sample_type(samples)?))?, topic)
                };
                self.outputs.insert(name.into(), output);
            }
            ["subscribe", name, topic, samples, hold] => {
                let node = self.node();
                let hold = number(hold);
                let input = if samples == "u8" {
                    ports::input(node.subscriber::<u8>(topic)?, hold, topic)?
                } else {
                    ports::input(node.subscriber::<Dynamic>((topic, &sample_type(samples)?))?, hold, topic)?
                };
                self.inputs.insert(name.into(), input);
            }
            ["windows", name, topic, samples] => {
                let node = self.node();
                let input = if samples == "u8" {
                    ports::windows(node.subscriber::<u8>(topic)?, topic)
                } else {
                    ports::windows(node.subscriber::<Dynamic>((topic, &sample_type(samples)?))?, topic)
                };
                self.inputs.insert(name.into(), input);
            }
            ["receivers", name, count] => {
                return Ok(outcome(self.output(name).wait_for_receivers(number(count))?));
            }
            ["peers", name] => {
                let peers = match self.outputs.get_mut(name) {
                    Some(output) => output.receivers(),
                    None => self.input(name).senders(),
                };
                return Ok(format!("ok {peers}"));
            }
            ["stream", name, id, rate, frequency, row, ref more @ ..] => {
                let mut stream: StreamInfo = serde_json::from_str(&with_id(id, &more.join(" "))).unwrap();
                let set = |word: &str| (word != "-").then(|| number(word));
                (stream.sample_rate_hz, stream.center_frequency_hz) = (set(rate), set(frequency));
                stream.row_length = (row != "-").then(|| number(row));
                self.output(name).set_stream(stream);
            }
            ["send", name, count, sizes, ref options @ ..] => {
                let sizes: Vec<usize> = sizes.split(',').map(number).collect();
                let output = self.output(name);
                for packet in 0..number::<usize>(count) {
                    let sending = Sending::parse(packet, options);
                    output.send(sizes[packet % sizes.len()], &sending)?;
                }
                return Ok(format!("ok {}", output.sequence()));
            }
            ["fill", name, samples] => {
                let sending = Sending::parse(0, &["way=try"]);
                let output = self.output(name);
                loop {
                    match output.send(number(samples), &sending) {
                        Ok(()) => {}
                        Err(Error::Full { .. }) => return Ok(format!("ok {}", output.sequence())),
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            ["loan", name, samples] => {
                let output = self.output(name);
                output.lend(number(samples), &mut || {
                    println!("{MARK} lent");
                    next.recv().unwrap();
                })?;
                return Ok(format!("ok {}", output.sequence()));
            }
            ["finish", name, ms] => self.output(name).end(milliseconds(ms))?,
            ["abandon", name] => self.outputs.remove(name).unwrap().abandon(),
            ["drop", name] => {
                self.outputs.remove(name);
                self.inputs.remove(name);
                self.clients.remove(name);
                self.servers.remove(name);
            }
            ["take", name, count, ms] => return Ok(self.input(name).take(number(count), milliseconds(ms))),
            ["publish-messages", name, topic, messages] => {
                let publisher = self.node().publisher::<Dynamic>((topic, &message_type(messages)))?;
                self.outputs.insert(name.into(), ports::output(publisher, topic));
            }
            ["subscribe-messages", name, topic, messages] => {
                let subscriber = self.node().subscriber::<Dynamic>((topic, &message_type(messages)))?;
                self.inputs.insert(name.into(), ports::input(subscriber, 0, topic)?);
            }
            ["send-messages", name, ref messages @ ..] => {
                let output = self.output(name);
                for message in messages {
                    output.send_message(&messages::encoded(message))?;
                }
                return Ok(format!("ok {}", output.sequence()));
            }
            ["take-messages", name, count, ms] => {
                return Ok(self.input(name).take_messages(number(count), milliseconds(ms)));
            }
            ["many", name, count, samples] => {
                let output = self.output(name);
                output.send_many(number(count), number(samples))?;
                return Ok(format!("ok {}", output.sequence()));
            }
            ["drain", name, limit] => return Ok(self.input(name).drain(number(limit))),
            ["handle", name, fails_at] => {
                let fails_at = (fails_at != "-").then(|| number(fails_at));
                return Ok(self.input(name).handle(fails_at));
            }
            ["hold", name, key, ms] => {
                let (token, held) = self.input(name).hold(milliseconds(ms));
                held.into_iter().for_each(|held| drop(self.held.insert(key.into(), held)));
                return Ok(token);
            }
            ["check", key] => return Ok(self.held[key].token()),
            ["release", key] => drop(self.held.remove(key).unwrap()),
            ["refuse", key, ref reason @ ..] => self.held.remove(key).unwrap().refuse(&reason.join(" ")),
            ["window", name, count, samples, hop, ms] => {
                let (samples, hop) = (number(samples), number(hop));
                return Ok(self.input(name).windows(number(count), samples, hop, milliseconds(ms)));
            }
            ["describe", name, ms] => return Ok(self.input(name).describe(milliseconds(ms))),
            ["refusals", _] => {
                let refused = self.node().refused_connections();
                let texts: Vec<String> = refused.iter().map(|(name, why)| format!("{name}: {why}")).collect();
                return Ok(format!("ok {}", texts.join(" | ")));
            }
            ["watch", name] => {
                let waker = match (self.outputs.get_mut(name), self.inputs.get_mut(name)) {
                    (Some(output), _) => output.waker()?,
                    (_, Some(input)) => input.waker()?,
                    _ => self.clients[name].waker()?,
                };
                *self.waker.lock().unwrap() = Some(waker);
            }
            ["client", name, service, ms] => {
                let client = calls::client(self.node(), service, milliseconds(ms))?;
                self.clients.insert(name.into(), client);
            }
            ["servers", name, count] => {
                return Ok(outcome(self.clients[name].wait_for_servers(number(count), TIMEOUT)?));
            }
            ["call", name, operation, argument] => {
                return calls::call(&self.clients[name], operation, number(argument), false);
            }
            ["call", name, operation, argument, request] => {
                let is_text = request == "message/cbor(text)";
                return calls::call(&self.clients[name], operation, number(argument), is_text);
            }
            ["server", name, service] => {
                let server = calls::server(self.node(), service)?;
                self.servers.insert(name.into(), server);
            }
            ["serve", name, count, ms] => {
                let server = self.servers.get_mut(name).unwrap();
                for _ in 0..number::<u32>(count) {
                    if !server.serve_one(milliseconds(ms))? {
                        return Ok(outcome(false));
                    }
                }
            }
            _ => panic!("unknown command {words:?}"),
        }
        ok
    }

    fn close(&mut self) {
        self.clients.clear();
        self.servers.clear();
        self.held.clear();
        self.inputs.clear();
        self.outputs.clear();
        *self.waker.lock().unwrap() = None;
        self.node = None;
    }

    fn node(&self) -> &Node {
        self.node.as_ref().unwrap()
    }

    fn output(&mut self, name: &str) -> &mut dyn Output {
        self.outputs.get_mut(name).unwrap_or_else(|| panic!("no publisher {name}")).as_mut()
    }

    fn input(&mut self, name: &str) -> &mut dyn Input {
        self.inputs.get_mut(name).unwrap_or_else(|| panic!("no subscriber {name}")).as_mut()
    }
}

fn outcome(is_there: bool) -> String {
    if is_there { "ok" } else { "empty" }.into()
}

fn number<N: std::str::FromStr>(word: &str) -> N {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is not a number"))
}

fn milliseconds(word: &str) -> Duration {
    Duration::from_millis(number(word))
}

/// Puts the name of a stream before the other members.
fn with_id(id: &str, more: &str) -> String {
    let separator = if more == "{}" { "" } else { "," };
    format!("{{\"id\":\"{id}\"{separator}{}", &more[1..])
}

fn message_type(text: &str) -> TypeName {
    TypeName::parse(text).unwrap()
}

fn sample_type(text: &str) -> Result<SampleType, Failure> {
    SampleType::parse(text).map_err(|error| Error::from(error).into())
}
