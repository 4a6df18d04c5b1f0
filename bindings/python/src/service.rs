//! Servers of services that are written in Python.

use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use stripline::Error;
use stripline::call::{
    Operation, Refusal, Responder as RustResponder, Server, ServerCounts, ServerOptions, Service,
};
use stripline::node::{Dispatch, Waker};
use stripline_bindings::Answer;

use crate::calls::{OperationParts, operation_parts};
use crate::error;
use crate::forks::Owner;
use crate::form::Form;
use crate::node::{Node, NodeHandle};
use crate::waits;

/// A server. The class `stripline.Server` runs it.
#[pyclass(frozen, module = "stripline._stripline", name = "_ServerCore")]
pub struct ServerCore {
    owner: Owner,
    service: String,
    address: String,
    operations: Vec<OperationParts>,
    counter: Box<dyn Fn() -> ServerCounts + Send + Sync>,
    ending: Arc<Ending>,
    state: Mutex<State>,
}

/// The exception with which a handler ends the server.
#[derive(Default)]
struct Ending {
    raised: Mutex<Option<PyErr>>,
    /// The waker that ends a pool of threads, while a pool exists.
    pool: Mutex<Option<Waker>>,
}

impl Ending {
    fn raise(&self, error: PyErr) {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        if let Some(waker) = &*self.pool.lock().unwrap_or_else(PoisonError::into_inner) {
            waker.wake();
        }
    }

    fn is_raised(&self) -> bool {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    fn take(&self) -> Option<PyErr> {
        self.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set_pool(&self, waker: Option<Waker>) {
        *self.pool.lock().unwrap_or_else(PoisonError::into_inner) = waker;
    }
}

struct State {
    /// `None` while a call uses it, and once it is closed.
    server: Option<Box<Port>>,
    waker: Waker,
    /// Whether a thread or an event loop serves. Then this one closes the server.
    is_serving: bool,
    is_closing: bool,
}

struct Port {
    server: Server<'static>,
    /// New clients find the server while the node exists.
    _node: Arc<NodeHandle>,
}

/// An operation as described in Python: the name, the types of request, reply and error, and the
/// description. The last part answers a call: it gets the request and a `_Responder`.
type Described<'py> = (String, Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, String, Py<PyAny>);

/// The types of an operation, and the handler.
struct Handler {
    request: Form,
    answers: Arc<Answers>,
    handler: Py<PyAny>,
    ending: Arc<Ending>,
}

/// The forms of the answers to a call.
struct Answers {
    /// `SERVICE.OPERATION`.
    what: String,
    reply: Form,
    error: Form,
}

impl Handler {
    /// Runs the handler for one call.
    fn run(&self, request: &[u8], responder: RustResponder) {
        if waits::is_ending() {
            return;
        }
        Python::attach(|py| {
            let request = match self.request.decode(py, request) {
                Ok(Ok(request)) => request,
                Ok(Err(reason)) => return responder.refuse_as(Refusal::WrongType, reason),
                Err(raised) => return responder.refuse(raised),
            };
            let answers = Arc::clone(&self.answers);
            let owner = Owner::current();
            let responder = Responder { owner, answers, answer: Answer::new(responder) };
            // The handler answers all exceptions, except those that end the server.
            if let Err(raised) = waits::call(self.handler.bind(py), (request, responder)) {
                self.ending.raise(raised);
            }
        });
    }
}

impl ServerCore {
    fn lock(&self) -> PyResult<MutexGuard<'_, State>> {
        self.owner.check(|| format!("server of `{}`", self.service))?;
        // The lock is held only for a few instructions, together with the interpreter's lock.
        Ok(self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a call that may run handlers, without the lock.
    fn with<R>(&self, use_it: impl FnOnce(&mut Port, &Waker) -> PyResult<R>) -> PyResult<R> {
        let (mut port, waker) = {
            let mut state = self.lock()?;
            let Some(port) = state.server.take() else {
                return Err(match state.is_serving || !state.is_closing {
                    true => error::in_use("server of", &self.service),
                    false => error::closed("server of", &self.service),
                });
            };
            (port, state.waker.clone())
        };
        let outcome = use_it(&mut port, &waker);
        // In a child process that a handler has forked, this fails, and leaves the server alone.
        match self.lock() {
            Ok(mut state) => {
                state.server = Some(port);
                outcome
            }
            Err(forked) => {
                std::mem::forget(port);
                outcome.and(Err(forked))
            }
        }
    }

    /// Serves until the session ends.
    fn session<R>(&self, py: Python<'_>, serve: impl FnOnce() -> PyResult<R>) -> PyResult<R> {
        self.begin()?;
        let outcome = serve();
        self.end(py)?;
        outcome
    }

    /// Answers the calls that have arrived, `most` at most, and returns their number.
    fn answer(&self, port: &mut Port, most: usize) -> PyResult<usize> {
        let mut answered = 0;
        while answered < most {
            let found = port.server.serve_one(Duration::ZERO);
            if let Some(raised) = self.ending.take() {
                return Err(raised);
            }
            match found {
                Ok(true) => answered += 1,
                Ok(false) => break,
                // A signal has woken a wait that had ended just before, or the server is closed.
                Err(Error::Interrupted { .. }) => break,
                Err(error) => return Err(error::raised(error)),
            }
        }
        Ok(answered)
    }
}

#[pymethods]
impl ServerCore {
    #[new]
    #[pyo3(signature = (node, service, operations, name, transport, clients, waiting))]
    #[expect(clippy::too_many_arguments, reason = "options that Python has by name")]
    fn new(
        py: Python<'_>,
        node: &Bound<'_, Node>,
        service: String,
        operations: Vec<Described<'_>>,
        name: Option<String>,
        transport: Option<String>,
        clients: u32,
        waiting: Option<u32>,
    ) -> PyResult<Self> {
        let invalid = |problem: Error| error::argument(problem.to_string());
        let ending = Arc::<Ending>::default();
        let mut made = Service::new(&service).map_err(invalid)?;
        for (operation, request, reply, error, doc, handler) in operations {
            let what = format!("`{service}.{operation}`");
            let (request_name, request) = Form::named(&request)?;
            let (reply_name, reply) = Form::named(&reply)?;
            let (error_name, error) = Form::named(&error)?;
            let types = Operation::new(&operation, request_name, reply_name, error_name).map_err(invalid)?;
            let answers = Arc::new(Answers { what, reply, error });
            let handler = Handler { request, answers, handler, ending: Arc::clone(&ending) };
            let run = move |request: &[u8], responder: RustResponder| handler.run(request, responder);
            made = made.operation_of(types, run).map_err(invalid)?.doc(&doc);
        }
        let options = ServerOptions { transport, name, clients, waiting, ..ServerOptions::default() };
        options.check().map_err(error::argument)?;
        let node = node.get().handle()?;
        let opened = waits::quietly(py, || {
            let mut server = node.node().service_server(made, options)?;
            let waker = server.waker()?;
            Ok::<_, Error>((server, waker))
        });
        let (server, waker) = opened.map_err(error::raised)?;
        let (address, operations) = (server.address(), operation_parts(server.operations()));
        let port = Box::new(Port { server, _node: node });
        let counter = Box::new(port.server.counter());
        let state = Mutex::new(State { server: Some(port), waker, is_serving: false, is_closing: false });
        Ok(Self { owner: Owner::current(), service, address, operations, counter, ending, state })
    }

    #[getter]
    fn service(&self) -> &str {
        &self.service
    }

    #[getter]
    fn address(&self) -> &str {
        &self.address
    }

    /// Answers calls on this thread, or on `threads` threads of the library, until the node is
    /// stopped or the server is closed.
    fn serve(&self, py: Python<'_>, threads: usize) -> PyResult<()> {
        let pool = match threads {
            1 => None,
            _ => Some(Dispatch::pool(threads).map_err(error::raised)?),
        };
        self.session(py, || {
            while !self.is_closed()? {
                match pool {
                    None => drop(self.serve_until(py, None)?),
                    Some(pool) => self.serve_pool(py, pool)?,
                }
            }
            Ok(())
        })
    }

    /// Answers one call on this thread. Returns false if no call arrived in time.
    #[pyo3(signature = (timeout=None))]
    fn serve_one(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<bool> {
        let deadline = waits::deadline(timeout)?;
        self.session(py, || self.serve_until(py, deadline))
    }

    /// Begins to serve in an event loop. The caller must call `end` in any case.
    fn begin(&self) -> PyResult<()> {
        let mut state = self.lock()?;
        if state.is_serving {
            return Err(error::in_use("server of", &self.service));
        }
        if state.is_closing {
            return Err(error::closed("server of", &self.service));
        }
        state.is_serving = true;
        Ok(())
    }

    /// Ends the session that `begin` has started. Closes the server if that was requested.
    fn end(&self, py: Python<'_>) -> PyResult<()> {
        let closed = {
            let mut state = self.lock()?;
            state.is_serving = false;
            if state.is_closing { state.server.take() } else { None }
        };
        waits::detached(py, || drop(closed));
        Ok(())
    }

    /// Answers the calls that have arrived, `most` at most, and returns their number.
    fn serve_ready(&self, most: usize) -> PyResult<usize> {
        self.with(|port, _| self.answer(port, most))
    }

    fn fileno(&self) -> PyResult<i32> {
        self.with(|port, _| Ok(port.server.ready_descriptor().map_err(error::raised)?.as_raw_fd()))
    }

    fn arm(&self) -> PyResult<bool> {
        self.with(|port, _| match port.server.arm() {
            Err(Error::Interrupted { .. }) => Ok(false),
            found => found.map_err(error::raised),
        })
    }

    #[getter]
    fn is_closed(&self) -> PyResult<bool> {
        Ok(self.lock()?.is_closing)
    }

    /// Returns the operations with their types and descriptions.
    fn operations(&self) -> Vec<OperationParts> {
        self.operations.clone()
    }

    /// Returns the counters of calls, refusals, cancellations, evictions, dropped replies and
    /// clients.
    fn counts(&self) -> PyResult<(u64, u64, u64, u64, u64, u64)> {
        let ServerCounts { calls, refused, cancelled, evicted, replies_dropped, clients, .. } =
            (self.counter)();
        Ok((calls, refused, cancelled, evicted, replies_dropped, clients))
    }

    /// Ends the server: at once, or when the current session ends.
    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let server = {
            let mut state = self.lock()?;
            state.is_closing = true;
            state.waker.wake();
            if state.is_serving { None } else { state.server.take() }
        };
        waits::detached(py, || drop(server));
        Ok(())
    }
}

impl ServerCore {
    fn serve_until(&self, py: Python<'_>, deadline: Option<Instant>) -> PyResult<bool> {
        self.with(|port, waker| {
            loop {
                let is_there = waits::run(py, waker, || {
                    let found = port.server.wait_for_call(waits::time_left(deadline));
                    match found {
                        // The server is closed: only this wakes it for good.
                        Err(Error::Interrupted { .. }) if self.is_closing_now() => Ok(false),
                        found => found,
                    }
                })?;
                if !is_there.map_err(error::raised)? {
                    return Ok(false);
                }
                // A call that was cancelled in the meantime does not count.
                if self.answer(port, 1)? > 0 {
                    return Ok(true);
                }
                if self.is_closed()? {
                    return Ok(false);
                }
            }
        })
    }

    /// Answers calls on threads of the library until one of them, or another thread, ends the
    /// session.
    fn serve_pool(&self, py: Python<'_>, pool: Dispatch) -> PyResult<()> {
        self.with(|port, waker| {
            self.ending.set_pool(Some(waker.clone()));
            let served = waits::run(py, waker, || match port.server.serve(pool) {
                Err(Error::Interrupted { .. }) if self.is_closing_now() || self.ending.is_raised() => Ok(()),
                // The node was stopped.
                Ok(()) => Err(Error::Stopped),
                failed => failed,
            });
            self.ending.set_pool(None);
            match self.ending.take() {
                Some(raised) => Err(raised),
                None => served?.map_err(error::raised),
            }
        })
    }

    /// Returns whether the server is being closed. For a thread without the interpreter's lock.
    fn is_closing_now(&self) -> bool {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).is_closing
    }
}

impl Drop for ServerCore {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        if !self.owner.is_current() {
            // The parent's server continues.
            std::mem::forget(state.server.take());
        }
    }
}

/// The right and the duty to answer one call, now or later, on any thread.
#[pyclass(frozen, module = "stripline._stripline", name = "_Responder")]
pub struct Responder {
    owner: Owner,
    answers: Arc<Answers>,
    answer: Answer,
}

impl Responder {
    fn take(&self) -> PyResult<Option<RustResponder>> {
        self.owner.check(|| format!("a call of {}", self.answers.what))?;
        Ok(self.answer.take())
    }
}

#[pymethods]
impl Responder {
    /// Returns the name of the client's connection.
    #[getter]
    fn client(&self) -> String {
        self.answer.client()
    }

    /// Returns the number of seconds that the client waits, from the start of the call.
    #[getter]
    fn deadline(&self) -> f64 {
        self.answer.deadline().as_secs_f64()
    }

    /// Sends the reply. A value that cannot be sent raises an exception, and does not answer the
    /// call.
    fn reply(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = self.answers.reply.encode(value, &format!("the reply of {}", self.answers.what))?;
        if let Some(responder) = self.take()? {
            responder.reply(&bytes);
        }
        Ok(())
    }

    /// Sends the operation's own error, like `reply`.
    fn fail(&self, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let bytes = self.answers.error.encode(value, &format!("the error of {}", self.answers.what))?;
        if let Some(responder) = self.take()? {
            responder.fail(&bytes);
        }
        Ok(())
    }

    /// Refuses the call: `kind` is `"panicked"`, `"wrong-type"` or `"failed"`.
    fn refuse(&self, kind: &str, reason: &str) -> PyResult<()> {
        let refusal = match kind {
            "panicked" => Refusal::Panicked,
            "wrong-type" => Refusal::WrongType,
            _ => Refusal::Failed,
        };
        if let Some(responder) = self.take()? {
            responder.refuse_as(refusal, reason);
        }
        Ok(())
    }
}
