//! Stripline's calls, through the public interface.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use stripline::Sample;
use stripline::call::{CallError, Client, ClientOptions, Pending, Plain, Server, ServerOptions};
use stripline::node::Node;

use super::super::case::{Case, Measure};
use super::super::measure::{self, OneWayTimes, Side, check_echo};
use super::super::turns::now_ns;
use crate::Problem;

/// The size of a request and of a reply in bytes.
pub(crate) const BYTES: usize = size_of::<Block>();
/// The deadline of each call.
const TIMEOUT: Duration = Duration::from_secs(15);

/// A request or a reply: plain memory.
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Block([u64; 8]);

impl Sample for Block {
    const TYPE: &'static str = "bench/block-64";
}

/// A pending call of the echo operation.
type PendingEcho<'c> = Pending<'c, Plain<Block>, Plain<Block>, String>;
type Echo = Client<Plain<Block>, Plain<Block>, String>;

/// Connects one side of the case.
pub(crate) fn connect<'n>(case: &Case, place: u32, node: &'n Node) -> Result<Box<dyn Side + 'n>, Problem> {
    let wait = case.wait;
    let text = |error: stripline::Error| error.to_string();
    if place > 0 {
        let options = ServerOptions { wait, ..ServerOptions::default() };
        let is_stamped = Arc::new(AtomicBool::new(false));
        let replies_time = Arc::clone(&is_stamped);
        let echo = move |request: Plain<Block>| {
            // Relaxed: the flag is set on this thread.
            let received_ns = if replies_time.load(Ordering::Relaxed) { Some(now_ns()) } else { None };
            let mut reply = Block::default();
            // Read and write the complete blocks, as for packets.
            let word = measure::read(bytemuck::bytes_of(&request.0))?;
            measure::write(bytemuck::bytes_of_mut(&mut reply), received_ns.unwrap_or(word));
            Ok::<_, String>(Plain(reply))
        };
        let server = node.server("echo", echo, options).map_err(text)?;
        return Ok(Box::new(Serving { server, is_stamped }));
    }
    let options = ClientOptions { wait, deadline: TIMEOUT, ..ClientOptions::default() };
    let service = node.service_client("echo", options).map_err(text)?;
    let client: Echo = service.operation("call").map_err(text)?;
    if !service.wait_for_servers(1, TIMEOUT).map_err(text)? {
        return Err("no server connected".into());
    }
    Ok(match case.measure {
        Measure::Outstanding => Box::new(KeepingOutstanding { client, outstanding: case.readers, word: 0 }),
        _ => Box::new(Calling { client, word: 0 }),
    })
}

/// The server side.
struct Serving<'n> {
    server: Server<'n>,
    /// Whether a reply carries the time at which the request was received.
    is_stamped: Arc<AtomicBool>,
}

impl Side for Serving<'_> {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        for _ in 0..count {
            // Without a time limit, no clock is read during the wait.
            self.server.serve_one(Duration::MAX).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    fn stamped(&mut self, count: u64, _times: &mut OneWayTimes) -> Result<(), Problem> {
        // Relaxed: this thread runs the handler.
        self.is_stamped.store(true, Ordering::Relaxed);
        let served = self.block(count);
        self.is_stamped.store(false, Ordering::Relaxed);
        served
    }
}

/// A client with one call at a time.
struct Calling {
    client: Echo,
    word: u64,
}

impl Calling {
    fn call(&self, word: u64) -> Result<u64, Problem> {
        word_of(self.client.call(&request(word)).map_err(text_of)?)
    }
}

impl Side for Calling {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        for _ in 0..count {
            self.word += 1;
            check_echo(self.call(self.word)?, self.word)?;
        }
        Ok(())
    }

    fn stamped(&mut self, count: u64, times: &mut OneWayTimes) -> Result<(), Problem> {
        for _ in 0..count {
            let sent_ns = now_ns();
            let received_ns = self.call(sent_ns)?;
            times.record_since(received_ns);
            times.record(received_ns.saturating_sub(sent_ns));
        }
        Ok(())
    }
}

/// A client that keeps many calls outstanding: each reply starts another call.
struct KeepingOutstanding {
    client: Echo,
    outstanding: u32,
    word: u64,
}

impl Side for KeepingOutstanding {
    fn block(&mut self, count: u64) -> Result<(), Problem> {
        let mut pending: VecDeque<(u64, PendingEcho<'_>)> = VecDeque::new();
        let take = |pending: &mut VecDeque<(u64, PendingEcho<'_>)>| match pending.pop_front() {
            Some((word, reply)) => check_echo(word_of(reply.wait().map_err(text_of)?)?, word),
            None => Ok(()),
        };
        for _ in 0..count {
            if pending.len() == self.outstanding as usize {
                take(&mut pending)?;
            }
            self.word += 1;
            pending.push_back((self.word, self.client.start(&request(self.word)).map_err(text_of)?));
        }
        while !pending.is_empty() {
            take(&mut pending)?;
        }
        Ok(())
    }
}

fn request(word: u64) -> Plain<Block> {
    let mut block = Block::default();
    measure::write(bytemuck::bytes_of_mut(&mut block), word);
    Plain(block)
}

fn word_of(reply: Plain<Block>) -> Result<u64, Problem> {
    measure::read(bytemuck::bytes_of(&reply.0))
}

fn text_of(error: CallError<String>) -> Problem {
    error.to_string()
}
