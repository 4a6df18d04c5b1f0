//! The shared part of receiving ports: held packets, waits and the descriptor.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::time::Instant;

use pyo3::prelude::*;
use stripline::node::{HeldPacket, Holding, Waitable, Waker};
use stripline::payload::Dynamic;
use stripline::terms::WaitStrategy;
use stripline::{Error, Received};

use crate::component::Requests;
use crate::error;
use crate::waits::{self, Polls};

/// The packets of a port, and the means to wake a thread or a loop that waits for them.
pub struct Input {
    pub holding: Holding<Dynamic>,
    waker: Option<Waker>,
    /// The requests to the component that owns the port.
    requests: Option<Arc<Requests>>,
    polls: Polls,
}

impl Input {
    pub fn new(holding: Holding<Dynamic>, requests: Option<Arc<Requests>>) -> Self {
        Self { holding, waker: None, requests, polls: Polls::new() }
    }

    /// Handles the requests to the component.
    pub fn serve(&self) {
        self.requests.iter().for_each(|requests| requests.serve());
    }

    /// Waits for a packet, at most until the deadline.
    pub fn wait(
        &mut self,
        py: Python<'_>,
        deadline: Option<Instant>,
    ) -> PyResult<Received<HeldPacket<Dynamic>>> {
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            return Ok(Received::Empty);
        }
        let Self { holding, waker, requests, polls, .. } = self;
        if holding.wait_strategy() == WaitStrategy::Adaptive {
            let found = polls.run(py, || match holding.try_receive() {
                Ok(Received::Empty) => None,
                found => Some(found),
            });
            if let Some(found) = found {
                return found.map_err(error::raised);
            }
        }
        let waker = match waker {
            Some(waker) => &*waker,
            None => &*waker.insert(holding.waker().map_err(error::raised)?),
        };
        let found = waits::run(py, waker, || match (deadline, &*requests) {
            // Without a deadline, call `receive`: a receive with a timeout reads the clock.
            (None, None) => Ok(holding.receive()?.map_or(Received::Ended, Received::Packet)),
            (None, Some(requests)) => {
                let found = holding.receive_with(|| requests.serve())?;
                Ok(found.map_or(Received::Ended, Received::Packet))
            }
            (Some(_), _) => holding.receive_timeout(waits::time_left(deadline)),
        })?;
        found.map_err(error::raised)
    }

    /// Returns the descriptor. The port still owns the descriptor.
    pub fn fileno(&mut self) -> PyResult<i32> {
        Ok(self.holding.ready_descriptor().map_err(error::raised)?.as_raw_fd())
    }

    /// Makes the descriptor readable once a packet may have arrived. Returns false if a packet may
    /// have arrived already.
    pub fn arm(&mut self) -> PyResult<bool> {
        match self.holding.arm() {
            // A signal woke the port after a wait had already ended. The caller must check again.
            Err(Error::Interrupted { .. }) => Ok(false),
            found => found.map_err(error::raised),
        }
    }
}
