//! Clients of services, and pending calls.

use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyTimeoutError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use stripline::Error;
use stripline::call::{
    CallError, CallOptions, Client, ClientOptions, Operation, OwnedPending, RawBytes, Refusal, ServiceClient,
};
use stripline::node::Waker;
use stripline::payload::TypeName;

use crate::error;
use crate::forks::Owner;
use crate::form::Form;
use crate::node::{Node, NodeHandle};
use crate::waits;

type RawClient = Client<RawBytes, RawBytes, RawBytes>;
type RawPending = OwnedPending<RawBytes, RawBytes, RawBytes>;
type Outcome = Result<RawBytes, CallError<RawBytes>>;

/// A client of a service. The classes of `stripline._calls` use it.
#[pyclass(frozen, dict, module = "stripline._stripline", name = "_ClientCore")]
pub struct ClientCore {
    owner: Owner,
    service: String,
    deadline: Duration,
    link: Mutex<Option<Arc<Link>>>,
}

struct Link {
    client: ServiceClient,
    waker: Waker,
    operations: Mutex<HashMap<String, Arc<KnownOperation>>>,
    /// New servers are found while the node exists.
    _node: Arc<NodeHandle>,
}

/// An operation with the types that a server has reported.
struct KnownOperation {
    handle: RawClient,
    /// `SERVICE.OPERATION`.
    what: String,
    operation: Operation,
    request: Form,
    reply: Form,
    error: Form,
}

impl ClientCore {
    fn lock(&self) -> PyResult<MutexGuard<'_, Option<Arc<Link>>>> {
        self.owner.check(|| format!("client of `{}`", self.service))?;
        // The lock is held only for a few instructions, together with the interpreter's lock.
        Ok(self.link.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn link(&self) -> PyResult<Arc<Link>> {
        self.lock()?.clone().ok_or_else(|| error::closed("client of", &self.service))
    }

    fn options(&self, key: Option<u64>, deadline: Option<f64>) -> PyResult<(CallOptions, Duration)> {
        let deadline = match deadline {
            None => self.deadline,
            Some(seconds) => waits::duration(seconds)?.min(ClientOptions::DEADLINE_MAX),
        };
        Ok((CallOptions { key, deadline: Some(deadline) }, deadline))
    }

    fn no_server(&self, waited: Duration) -> CallError<RawBytes> {
        CallError::NoServer { service: self.service.clone(), waited }
    }
}

impl Link {
    /// Returns the named operation, with the types that a server has reported. Returns None if no
    /// server is connected.
    fn operation(&self, py: Python<'_>, service: &str, name: &str) -> PyResult<Option<Arc<KnownOperation>>> {
        let lock = || self.operations.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(name) {
            return Ok(Some(Arc::clone(known)));
        }
        let servers = waits::detached(py, || self.client.servers());
        let mut connected = servers.iter().filter(|server| server.connected).peekable();
        if connected.peek().is_none() {
            return Ok(None);
        }
        let offered = connected.flat_map(|server| &server.operations).find(|offered| offered.name == name);
        let made = match offered {
            Some(offered) => self.make(py, service, offered)?,
            // The call fails, with the names of the operations that exist.
            None => {
                let any = || TypeName::message("cbor").map_err(Error::failed);
                let any = any().and_then(|any| Operation::new(name, any.clone(), any.clone(), any));
                return self.make(py, service, &any.map_err(error::raised)?).map(Some);
            }
        };
        lock().insert(name.into(), Arc::clone(&made));
        Ok(Some(made))
    }

    fn make(&self, py: Python<'_>, service: &str, operation: &Operation) -> PyResult<Arc<KnownOperation>> {
        let handle = waits::detached(py, || self.client.operation_of(operation)).map_err(error::raised)?;
        Ok(Arc::new(KnownOperation {
            handle,
            what: format!("`{service}.{}`", operation.name),
            operation: operation.clone(),
            request: Form::of(py, &operation.request)?,
            reply: Form::of(py, &operation.reply)?,
            error: Form::of(py, &operation.error)?,
        }))
    }

    /// Forgets the types of an operation that the server does not have. Returns false if the server
    /// still reports the same types.
    fn has_changed(&self, py: Python<'_>, service: &str, known: &KnownOperation) -> PyResult<bool> {
        let name = &known.operation.name;
        self.operations.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
        let now = self.operation(py, service, name)?;
        Ok(now.is_some_and(|now| {
            let types = |of: &Operation| [of.request.clone(), of.reply.clone(), of.error.clone()];
            types(&now.operation) != types(&known.operation)
        }))
    }
}

/// Returns whether a call was not sent because the types differ from the server's types.
fn has_other_types(failed: &CallError<RawBytes>) -> bool {
    matches!(failed, CallError::Refused { refusal: Refusal::WrongType | Refusal::UnknownOperation, .. })
}

impl KnownOperation {
    fn encode(&self, request: &Bound<'_, PyAny>) -> PyResult<RawBytes> {
        let what = match self.request {
            Form::Message => format!("the request of {}", self.what),
            // The code for samples names it as a port.
            Form::Samples(_) => self.what.trim_matches('`').into(),
        };
        self.request.encode(request, &what).map(RawBytes)
    }

    /// Returns the value of a reply, or the exception for another outcome.
    fn read<'py>(&self, py: Python<'py>, outcome: Outcome) -> PyResult<Bound<'py, PyAny>> {
        match outcome {
            Ok(RawBytes(bytes)) => self.reply.decode(py, &bytes)?.map_err(|reason| {
                let failed: CallError<RawBytes> = CallError::Decode { call: self.what.clone(), reason };
                error::raised(failed)
            }),
            Err(CallError::User(RawBytes(bytes))) => match self.error.decode(py, &bytes)? {
                Ok(value) => Err(own_error(&self.what, &value)),
                Err(reason) => {
                    Err(error::raised(CallError::<RawBytes>::Decode { call: self.what.clone(), reason }))
                }
            },
            Err(failed) => Err(error::raised(failed)),
        }
    }
}

/// Returns the exception of an operation's own error.
#[cold]
fn own_error(what: &str, value: &Bound<'_, PyAny>) -> PyErr {
    static MAKE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let py = value.py();
    let made = MAKE.import(py, "stripline._errors", "_own_error").and_then(|make| make.call1((what, value)));
    made.map_or_else(|error| error, PyErr::from_value)
}

/// Takes an interrupt out of the outcome of a call. The call continues after it.
fn interrupted<T>(outcome: Result<T, CallError<RawBytes>>) -> Result<Result<T, CallError<RawBytes>>, Error> {
    match outcome {
        Err(CallError::Link(Error::Interrupted { port, .. })) => {
            Err(Error::Interrupted { port, sent: false })
        }
        outcome => Ok(outcome),
    }
}

/// Waits for the reply of a call, up to the deadline of the call. `until` is an earlier time, or
/// `None`.
fn wait(pending: &mut Option<RawPending>, until: Option<Instant>) -> Result<Option<Outcome>, Error> {
    let Some(call) = pending else { return Ok(Some(Err(CallError::Cancelled))) };
    match call.wait_timeout(waits::time_left(until)) {
        Some(outcome) => {
            let outcome = interrupted(outcome)?;
            *pending = None;
            Ok(Some(outcome))
        }
        None if until.is_some_and(|until| Instant::now() >= until) => Ok(None),
        // The deadline of the call has passed.
        None => Ok(pending.take().map(OwnedPending::wait)),
    }
}

#[pymethods]
impl ClientCore {
    #[new]
    #[pyo3(signature = (node, service, deadline, outstanding=None, buffer=None))]
    fn new(
        py: Python<'_>,
        node: &Bound<'_, Node>,
        service: String,
        deadline: f64,
        outstanding: Option<u32>,
        buffer: Option<u32>,
    ) -> PyResult<Self> {
        let mut options = ClientOptions { deadline: waits::duration(deadline)?, ..ClientOptions::default() };
        options.outstanding = outstanding.unwrap_or(options.outstanding);
        options.buffer = buffer.unwrap_or(options.buffer);
        let deadline = options.deadline;
        options.check().map_err(error::argument)?;
        let node = node.get().handle()?;
        let made = waits::quietly(py, || node.node().service_client(&service, options));
        let client = made.map_err(error::raised)?;
        let waker = client.waker().map_err(error::raised)?;
        let link = Arc::new(Link { client, waker, operations: Mutex::default(), _node: node });
        Ok(Self { owner: Owner::current(), service, deadline, link: Mutex::new(Some(link)) })
    }

    #[getter]
    fn service(&self) -> &str {
        &self.service
    }

    #[getter]
    fn deadline(&self) -> f64 {
        self.deadline.as_secs_f64()
    }

    /// Calls an operation, and waits for the reply.
    #[pyo3(signature = (operation, request, key=None, deadline=None))]
    fn call<'py>(
        &self,
        py: Python<'py>,
        operation: &str,
        request: &Bound<'py, PyAny>,
        key: Option<u64>,
        deadline: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let link = self.link()?;
        let (mut pending, mut is_again) = (None, false);
        loop {
            let (known, options) = self.prepare(py, &link, operation, key, deadline)?;
            let bytes = known.encode(request)?;
            let outcome = waits::run(py, &link.waker, || {
                if pending.is_none() {
                    match interrupted(known.handle.with(options).start(&bytes))? {
                        Ok(started) => pending = Some(started.into_owned()),
                        Err(failed) => return Ok(Err(failed)),
                    }
                }
                let outcome = wait(&mut pending, None)?;
                Ok(Ok(outcome.unwrap_or(Err(CallError::Cancelled))))
            })?;
            match outcome.map_err(error::raised)? {
                Ok(outcome) => return known.read(py, outcome),
                Err(failed) if !is_again && has_other_types(&failed) => {
                    if !link.has_changed(py, &self.service, &known)? {
                        return Err(error::raised(failed));
                    }
                    is_again = true;
                }
                Err(failed) => return Err(error::raised(failed)),
            }
        }
    }

    /// Starts a call, and returns it without a reply. Waits for a server, and for room.
    #[pyo3(signature = (operation, request, key=None, deadline=None))]
    fn start(
        slf: &Bound<'_, Self>,
        operation: &str,
        request: &Bound<'_, PyAny>,
        key: Option<u64>,
        deadline: Option<f64>,
    ) -> PyResult<Pending> {
        let link = slf.get().link()?;
        Self::begin(slf, operation, request, key, deadline, |known, options, bytes| {
            let start = || interrupted(known.handle.with(options).start(bytes));
            let start = || Ok(start()?.map(stripline::call::Pending::into_owned));
            waits::run(slf.py(), &link.waker, start)?.map_err(error::raised)
        })
    }

    /// Starts a call like `start`, without waiting: raises `NoServerError`, or `NoRoomError`.
    #[pyo3(signature = (operation, request, key=None, deadline=None))]
    fn try_start(
        slf: &Bound<'_, Self>,
        operation: &str,
        request: &Bound<'_, PyAny>,
        key: Option<u64>,
        deadline: Option<f64>,
    ) -> PyResult<Pending> {
        let this = slf.get();
        if this.link()?.operation(slf.py(), &this.service, operation)?.is_none() {
            return Err(error::raised(this.no_server(Duration::ZERO)));
        }
        Self::begin(slf, operation, request, key, deadline, |known, options, bytes| {
            let start = || known.handle.with(options).try_start(bytes).map(|made| made.into_owned());
            loop {
                match interrupted(waits::detached(slf.py(), start)) {
                    Ok(started) => return Ok(started),
                    // A signal has woken a wait that had ended just before.
                    Err(_) => slf.py().check_signals()?,
                }
            }
        })
    }

    /// Returns the exception for a call without a server, after `waited` seconds.
    fn no_server_error(&self, py: Python<'_>, waited: f64) -> PyResult<Py<PyAny>> {
        Ok(error::raised(self.no_server(waits::duration(waited)?)).into_value(py).into_any())
    }

    /// Waits until `count` servers are connected. Raises `TimeoutError` if they are not connected
    /// within `timeout` seconds.
    #[pyo3(signature = (count=1, timeout=None))]
    fn wait_for_servers(&self, py: Python<'_>, count: usize, timeout: Option<f64>) -> PyResult<()> {
        let (link, deadline) = (self.link()?, waits::deadline(timeout)?);
        let is_met = link.wait_for_servers(py, count, deadline)?;
        if is_met {
            return Ok(());
        }
        let seconds = timeout.unwrap_or(f64::INFINITY);
        let service = &self.service;
        Err(PyTimeoutError::new_err(format!(
            "service `{service}`: {count} servers did not come within {seconds} s"
        )))
    }

    /// Returns a `ServerReport` for each server that is or was connected.
    fn servers<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        static REPORT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        let report = REPORT.import(py, "stripline._calls", "_server_report")?;
        let link = self.link()?;
        let servers = waits::detached(py, || link.client.servers());
        let made = servers.into_iter().map(|it| {
            let operations = operation_parts(&it.operations);
            report.call1((it.server, it.connected, it.outstanding, it.late, operations))
        });
        made.collect()
    }

    /// Returns the numbers of calls made, and of calls that failed.
    fn counts(&self) -> PyResult<(u64, u64)> {
        Ok(self.link()?.client.counts())
    }

    fn fileno(&self) -> PyResult<i32> {
        Ok(self.link()?.client.ready_descriptor().map_err(error::raised)?.as_raw_fd())
    }

    fn arm(&self, py: Python<'_>) -> PyResult<bool> {
        let link = self.link()?;
        match waits::detached(py, || link.client.arm()) {
            Err(Error::Interrupted { .. }) => {
                waits::pass_on(py, &link.waker);
                Ok(false)
            }
            found => found.map_err(error::raised),
        }
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        let link = self.lock()?.take();
        waits::detached(py, || drop(link));
        Ok(())
    }
}

impl Link {
    fn wait_for_servers(&self, py: Python<'_>, count: usize, deadline: Option<Instant>) -> PyResult<bool> {
        let longest = ClientOptions::DEADLINE_MAX;
        loop {
            let found = waits::run(py, &self.waker, || {
                self.client.wait_for_servers(count, waits::time_left(deadline).min(longest))
            })?;
            // Without a limit, the wait continues after an hour.
            match found.map_err(error::raised)? {
                false if deadline.is_none_or(|deadline| Instant::now() < deadline) => {}
                found => return Ok(found),
            }
        }
    }
}

impl ClientCore {
    /// Returns an operation and the options of a call, once a server is connected.
    fn prepare(
        &self,
        py: Python<'_>,
        link: &Link,
        operation: &str,
        key: Option<u64>,
        deadline: Option<f64>,
    ) -> PyResult<(Arc<KnownOperation>, CallOptions)> {
        let (mut options, time) = self.options(key, deadline)?;
        let until = Instant::now() + time;
        loop {
            if let Some(known) = link.operation(py, &self.service, operation)? {
                return Ok((known, options));
            }
            if !link.wait_for_servers(py, 1, Some(until))? {
                return Err(error::raised(self.no_server(time)));
            }
            options.deadline = Some(waits::time_left(Some(until)));
        }
    }

    fn begin(
        slf: &Bound<'_, Self>,
        operation: &str,
        request: &Bound<'_, PyAny>,
        key: Option<u64>,
        deadline: Option<f64>,
        mut start: impl FnMut(
            &KnownOperation,
            CallOptions,
            &RawBytes,
        ) -> PyResult<Result<RawPending, CallError<RawBytes>>>,
    ) -> PyResult<Pending> {
        let (this, py) = (slf.get(), slf.py());
        let link = this.link()?;
        let mut is_again = false;
        loop {
            let (known, options) = this.prepare(py, &link, operation, key, deadline)?;
            let bytes = known.encode(request)?;
            let until = Instant::now() + options.deadline.unwrap_or(this.deadline);
            match start(&known, options, &bytes)? {
                Ok(call) => {
                    let core = slf.clone().unbind();
                    let call = Mutex::new(Call::Open(call));
                    return Ok(Pending { owner: this.owner, core, link, known, until, call });
                }
                Err(failed)
                    if !is_again
                        && has_other_types(&failed)
                        && link.has_changed(py, &this.service, &known)? =>
                {
                    is_again = true;
                }
                Err(failed) => return Err(error::raised(failed)),
            }
        }
    }
}

/// An operation's name, the types of request, reply and error, and the description.
pub type OperationParts = (String, String, String, String, String);

/// Returns operations for Python.
pub fn operation_parts(operations: &[Operation]) -> Vec<OperationParts> {
    let text = |of: &TypeName| of.full_text().to_string();
    let parts = |it: &Operation| {
        (it.name.clone(), text(&it.request), text(&it.reply), text(&it.error), it.doc.clone())
    };
    operations.iter().map(parts).collect()
}

/// A call that was started, and the reply once it has arrived.
///
/// `wait` returns the reply, and so does `await`. Dropping the last reference cancels the call, as
/// `cancel` does: a server that has not started it never starts it.
#[pyclass(frozen, module = "stripline")]
pub struct Pending {
    owner: Owner,
    core: Py<ClientCore>,
    link: Arc<Link>,
    known: Arc<KnownOperation>,
    until: Instant,
    call: Mutex<Call>,
}

enum Call {
    Open(RawPending),
    /// The reply, or the exception. Each `wait` returns it.
    Done(Result<Py<PyAny>, PyErr>),
    /// Only while a method uses it.
    Taken,
}

impl Pending {
    fn with<R>(&self, use_it: impl FnOnce(&mut Call) -> PyResult<R>) -> PyResult<R> {
        self.owner.check(|| format!("a call of {}", self.known.what))?;
        let mut call = match self.call.try_lock() {
            Ok(call) => call,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(error::in_use("a call of", &self.known.what)),
        };
        use_it(&mut call)
    }

    /// Waits for the outcome, and keeps it. Returns false if it has not arrived.
    fn settle(&self, py: Python<'_>, call: &mut Call, until: Option<Instant>) -> PyResult<bool> {
        let open = match std::mem::replace(call, Call::Taken) {
            Call::Open(open) => open,
            done => {
                *call = done;
                return Ok(true);
            }
        };
        let mut open = Some(open);
        let is_polled = until.is_some_and(|until| until <= Instant::now());
        let waited = match is_polled {
            // At the deadline as well, because the wait below then returns at once.
            true if Instant::now() < self.until => {
                let taken = waits::detached(py, || open.as_mut().and_then(OwnedPending::try_take));
                if taken.is_some() {
                    open = None;
                }
                Ok(Ok(taken))
            }
            true => waits::run(py, &self.link.waker, || wait(&mut open, None)),
            false => waits::run(py, &self.link.waker, || wait(&mut open, until)),
        };
        if let Some(open) = open {
            *call = Call::Open(open);
        }
        let Some(outcome) = waited?.map_err(error::raised)? else { return Ok(false) };
        *call = Call::Done(self.known.read(py, outcome).map(Bound::unbind));
        Ok(true)
    }
}

#[pymethods]
impl Pending {
    /// Waits for the reply, and returns it. Raises the exceptions of a call, and `TimeoutError` if
    /// the reply does not arrive within `timeout` seconds: then the call stays outstanding. None
    /// waits until the deadline of the call. Later calls of this return and raise the same.
    #[pyo3(signature = (timeout=None))]
    fn wait<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        let until = waits::deadline(timeout)?;
        self.with(|call| {
            if !self.settle(py, call, until)? {
                return Err(PyTimeoutError::new_err(format!(
                    "{} did not answer within {} s",
                    self.known.what,
                    timeout.unwrap_or(f64::INFINITY)
                )));
            }
            match call {
                Call::Done(Ok(value)) => Ok(value.bind(py).clone()),
                Call::Done(Err(raised)) => Err(raised.clone_ref(py)),
                Call::Open(_) | Call::Taken => Err(error::raised(CallError::Cancelled)),
            }
        })
    }

    /// Returns whether the reply, or another outcome, has arrived: then `wait` does not wait.
    fn done(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(|call| self.settle(py, call, Some(Instant::now())))
    }

    /// Cancels the call, unless it is done. Then `wait` raises a `CallError`.
    fn cancel(&self, py: Python<'_>) -> PyResult<()> {
        self.with(|call| {
            let before = std::mem::replace(call, Call::Taken);
            match before {
                Call::Done(done) => *call = Call::Done(done),
                Call::Open(_) | Call::Taken => {
                    *call = Call::Done(Err(error::raised(CallError::Cancelled)));
                    waits::detached(py, || drop(before));
                }
            }
            Ok(())
        })
    }

    /// Returns the number of seconds until the deadline of the call.
    #[getter]
    fn time_left(&self) -> f64 {
        waits::time_left(Some(self.until)).as_secs_f64()
    }

    #[getter(_core)]
    fn core(&self, py: Python<'_>) -> Py<ClientCore> {
        self.core.clone_ref(py)
    }

    fn __await__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        static REPLY: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
        REPLY.import(slf.py(), "stripline._calls", "_reply")?.call1((slf,))?.call_method0("__await__")
    }

    fn __repr__(&self) -> String {
        format!("<stripline.Pending {}>", self.known.what)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        // The parent's call continues.
        if !self.owner.is_current() {
            let call = self.call.get_mut().unwrap_or_else(PoisonError::into_inner);
            std::mem::forget(std::mem::replace(call, Call::Taken));
        }
    }
}
