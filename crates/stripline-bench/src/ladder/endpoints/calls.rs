//! Stripline's calls, through their public interface.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use stripline::Sample;
use stripline::call::{CallError, Client, ClientOptions, Pending, Plain, ServerOptions};
use stripline::node::{Dispatch, Node};
use stripline::terms::WaitStrategy;

use super::super::Problem;
use super::super::case::{Case, Measure, Outcome, Wait};
use super::super::measure::{self, timed};

/// Bytes of a request and of a reply.
pub(crate) const BYTES: usize = size_of::<Block>();
const TIMEOUT: Duration = Duration::from_secs(15);
/// The first word of the last call.
const STOP: u64 = u64::MAX;

/// A request or a reply: plain memory.
#[derive(Clone, Copy, Default, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C)]
struct Block([u64; 8]);

impl Sample for Block {
    const TYPE: &'static str = "bench/block-64";
}

/// A pending call of the echo operation.
type Echoing<'c> = Pending<'c, Plain<Block>, Plain<Block>, String>;
type Echo = Client<Plain<Block>, Plain<Block>, String>;

/// Runs one side of the case; `ready` returns when both sides are ready.
pub(crate) fn run(
    case: &Case,
    place: u32,
    seconds: f64,
    node: &Node,
    ready: impl FnOnce() -> Result<(), Problem>,
) -> Result<Outcome, Problem> {
    let wait = match case.wait {
        Wait::None | Wait::Spin => WaitStrategy::Spin,
        Wait::Adaptive => WaitStrategy::Adaptive,
        Wait::Block => WaitStrategy::Block,
    };
    let text = |error: stripline::Error| error.to_string();
    if place > 0 {
        let options = ServerOptions { wait, ..ServerOptions::default() };
        let echo = |request: Plain<Block>| {
            let mut reply = Block::default();
            // Read and write all of it, as for packets.
            let word = measure::read(bytemuck::bytes_of(&request.0)).unwrap_or(STOP);
            measure::write(bytemuck::bytes_of_mut(&mut reply), word);
            if word == STOP {
                node.stop();
            }
            Ok::<_, String>(Plain(reply))
        };
        let mut server = node.server("echo", echo, options).map_err(text)?;
        ready()?;
        server.serve(Dispatch::Queue).map_err(text)?;
        return Ok(Outcome::default());
    }
    let options = ClientOptions { wait, deadline: TIMEOUT, ..ClientOptions::default() };
    let service = node.service_client("echo", options).map_err(text)?;
    let client: Echo = service.operation("call").map_err(text)?;
    if !service.wait_for_servers(1, TIMEOUT).map_err(text)? {
        return Err("no server connected".into());
    }
    ready()?;
    let outcome = match case.measure {
        Measure::Outstanding => keep_outstanding(&client, case.readers, seconds),
        _ => one_by_one(&client, seconds),
    };
    // The server ends with this call, so its reply may not come.
    drop(client.call(&request(STOP)));
    outcome
}

fn request(word: u64) -> Plain<Block> {
    let mut block = Block::default();
    measure::write(bytemuck::bytes_of_mut(&mut block), word);
    Plain(block)
}

fn check(reply: Plain<Block>, word: u64) -> Result<(), Problem> {
    match measure::read(bytemuck::bytes_of(&reply.0))? {
        echo if echo == word => Ok(()),
        echo => Err(format!("the reply to call {word} is {echo}")),
    }
}

/// Measures calls one by one. Half of a call is compared with one way of a packet.
fn one_by_one(client: &Echo, seconds: f64) -> Result<Outcome, Problem> {
    let mut outcome = Outcome::default();
    let mut word = 0;
    timed(seconds, &mut outcome, || {
        word += 1;
        check(client.call(&request(word)).map_err(said)?, word)
    })?;
    outcome.typical_ns = outcome.typical_ns.map(|ns| ns / 2.0);
    Ok(outcome)
}

/// Keeps that many calls outstanding: each reply starts another call.
fn keep_outstanding(client: &Echo, outstanding: u32, seconds: f64) -> Result<Outcome, Problem> {
    let mut pending: VecDeque<(u64, Echoing<'_>)> = VecDeque::new();
    let mut word = 0;
    let mut step = || {
        if pending.len() as u32 == outstanding
            && let Some((word, reply)) = pending.pop_front()
        {
            check(reply.wait().map_err(said)?, word)?;
        }
        word += 1;
        pending.push_back((word, client.start(&request(word)).map_err(said)?));
        Ok::<(), Problem>(())
    };
    let mut outcome = Outcome::default();
    let (start, chunk) = (Instant::now(), 64);
    let mut first = None;
    loop {
        for _ in 0..chunk {
            step()?;
        }
        outcome.packets += chunk;
        let elapsed = start.elapsed().as_secs_f64();
        match first {
            None if elapsed >= seconds / 10.0 => (outcome.packets, first) = (0, Some(elapsed)),
            Some(first) if elapsed >= seconds => {
                outcome.elapsed_s = elapsed - first;
                break;
            }
            _ => {}
        }
    }
    for (word, reply) in pending {
        check(reply.wait().map_err(said)?, word)?;
    }
    Ok(outcome)
}

fn said(error: CallError<String>) -> Problem {
    error.to_string()
}
