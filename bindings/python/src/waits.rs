//! Waits without the interpreter's lock. A signal ends them at once.
//!
//! The main thread waits in the library, like a Rust program. During this time, Python's C signal
//! handler writes to a pipe (`signal.set_wakeup_fd`), on whichever thread it runs. A thread of this
//! module reads the pipe and wakes the wait. Then the main thread runs the Python handlers, and
//! continues to wait unless one of them raises. If the program had set a descriptor, it is restored
//! after each wait, and gets the bytes that arrived in between.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyOSError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use stripline::Error;
use stripline::node::Waker;

use crate::forks::Owner;

/// The time that the end of the interpreter waits for threads that were woken.
const END_TIME: Duration = Duration::from_secs(1);

/// The time that a thread leaves a wake to another thread.
const PASS_TIME: Duration = Duration::from_millis(1);

/// The maximum number of polls in a wait: about as long as it takes to wake a sleeper.
const POLLS_MAX: u32 = 64;
/// The number of processor pauses before each poll.
const PAUSES: u32 = 8;
/// A port that has stopped polling tries it again after this number of waits.
const SKIPPED_MAX: u32 = 32;

/// The watcher of this process, which is never freed, because a thread uses the watcher.
static WATCHER: AtomicPtr<Watcher> = AtomicPtr::new(ptr::null_mut());
/// Whether the interpreter is ending.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// The number of threads, without the main thread, that are outside of the interpreter.
static OUTSIDE: AtomicUsize = AtomicUsize::new(0);
/// The wakers for the waits of those threads. The mutex is locked only with the interpreter's lock
/// held, so that no fork finds the mutex locked.
static WAKERS: Mutex<BTreeMap<u64, Waker>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Runs a wait until it returns anything except [`Error::Interrupted`], or until a signal handler
/// raises. `once` is called again after each signal.
pub fn run<T: Send>(
    py: Python<'_>,
    waker: &Waker,
    mut once: impl FnMut() -> Result<T, Error> + Send,
) -> PyResult<Result<T, Error>> {
    loop {
        let found = match is_main_thread() {
            true => on_main_thread(py, waker, &mut once)?,
            false => on_other_thread(py, waker, &mut once),
        };
        match found {
            Err(Error::Interrupted { sent: false, .. }) => {
                pass_on(py, waker);
                py.check_signals()?;
            }
            Err(Error::Interrupted { sent: true, .. }) => {
                py.check_signals()?;
                return Ok(found);
            }
            // A received packet is not lost if a handler raises: the interpreter runs the handler
            // soon.
            found => return Ok(found),
        }
    }
}

/// Passes a wake on to the main thread, if it was for that thread and both threads wait with the
/// same waker.
pub fn pass_on(py: Python<'_>, waker: &Waker) {
    // SAFETY: the pointer is null, or points to a watcher that is never freed.
    let watcher = unsafe { WATCHER.load(Ordering::SeqCst).as_ref() };
    let is_for_main_thread = watcher.is_some_and(|watcher| lock(&watcher.current).is_woken);
    if is_for_main_thread && !is_main_thread() {
        waker.wake();
        // The main thread takes the wake in this time. If it does not, this thread takes it again.
        py.detach(|| std::thread::sleep(PASS_TIME));
    }
}

/// Returns the time at which a timeout in seconds ends; `None`: no limit.
pub fn deadline(timeout: Option<f64>) -> PyResult<Option<Instant>> {
    let Some(seconds) = timeout else { return Ok(None) };
    if seconds.is_nan() || seconds < 0.0 {
        return Err(PyValueError::new_err(format!("the timeout is {seconds}; give seconds from 0, or None")));
    }
    // Beyond the clock's range, there is no limit.
    Ok(Duration::try_from_secs_f64(seconds).ok().and_then(|time| Instant::now().checked_add(time)))
}

/// Reads a time in seconds, which must have a limit.
pub fn duration(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| PyValueError::new_err(format!("the deadline is {seconds}; give seconds from 0")))
}

/// Returns the time left until the deadline; without one, there is no limit.
pub fn time_left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::MAX, |deadline| deadline.saturating_duration_since(Instant::now()))
}

/// Returns whether this thread runs Python's signal handlers: the first thread of the process, also
/// after a fork.
pub fn is_main_thread() -> bool {
    thread_local! {
        // The answer costs two system calls, and changes with a fork.
        static FOUND: Cell<Option<(Owner, bool)>> = const { Cell::new(None) };
    }
    let owner = Owner::current();
    match FOUND.get() {
        Some((of, is_main)) if of == owner => is_main,
        _ => {
            // SAFETY: both functions only return a number.
            let is_main = unsafe { libc::gettid() == libc::getpid() };
            FOUND.set(Some((owner, is_main)));
            is_main
        }
    }
}

/// The number of polls of a port, without the interpreter's lock, before it prepares to sleep. To
/// sleep takes system calls on the main thread. A success doubles the number, and a failure halves
/// it.
pub struct Polls {
    count: u32,
    /// The number of waits without polls.
    skipped: u32,
}

impl Polls {
    pub fn new() -> Self {
        Self { count: POLLS_MAX, skipped: 0 }
    }

    /// Polls until something arrives; `None`: sleep.
    pub fn run<T: Send>(&mut self, py: Python<'_>, mut poll: impl FnMut() -> Option<T> + Send) -> Option<T> {
        if self.count == 0 {
            self.skipped += 1;
            if self.skipped < SKIPPED_MAX {
                return None;
            }
            (self.count, self.skipped) = (POLLS_MAX / 8, 0);
        }
        let count = self.count;
        let found = detached(py, || {
            (0..count).find_map(|_| {
                (0..PAUSES).for_each(|_| std::hint::spin_loop());
                poll()
            })
        });
        self.count = match found {
            Some(_) => (count * 2).min(POLLS_MAX),
            None => count / 2,
        };
        found
    }
}

fn on_main_thread<T: Send>(
    py: Python<'_>,
    waker: &Waker,
    once: &mut (impl FnMut() -> Result<T, Error> + Send),
) -> PyResult<Result<T, Error>> {
    let watch = Watch::begin(py, waker)?;
    // A signal from before this wait has left no byte.
    let found = py.check_signals().map(|()| py.detach(once));
    let ended = watch.end(py);
    let found = found?;
    match (&found, ended) {
        // This error loses nothing.
        (Err(_), Err(error)) => Err(error),
        _ => Ok(found),
    }
}

fn on_other_thread<T: Send>(
    py: Python<'_>,
    waker: &Waker,
    once: &mut (impl FnMut() -> Result<T, Error> + Send),
) -> Result<T, Error> {
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    lock(&WAKERS).insert(number, waker.clone());
    OUTSIDE.fetch_add(1, Ordering::SeqCst);
    let found = py.detach(|| {
        stay_if_ending(());
        stay_if_ending(once())
    });
    OUTSIDE.fetch_sub(1, Ordering::SeqCst);
    lock(&WAKERS).remove(&number);
    found
}

/// Returns whether the interpreter is ending.
pub fn is_ending() -> bool {
    IS_ENDING.load(Ordering::SeqCst)
}

/// Calls code of the program from a thread of the library.
///
/// If the interpreter ends in the meantime, versions before 3.14 unwind a thread that returns to
/// it. The unwinding must not pass through this library, so the thread stays here for good.
pub fn call<'py>(
    function: &Bound<'py, PyAny>,
    arguments: impl IntoPyObject<'py, Target = PyTuple, Output = Bound<'py, PyTuple>, Error = PyErr>,
) -> PyResult<Bound<'py, PyAny>> {
    type Call = unsafe extern "C-unwind" fn(
        *mut ffi::PyObject,
        *mut ffi::PyObject,
        *mut ffi::PyObject,
    ) -> *mut ffi::PyObject;
    /// A guard that stops the thread that drops it.
    struct Stay;
    impl Drop for Stay {
        fn drop(&mut self) {
            loop {
                std::thread::park();
            }
        }
    }
    let py = function.py();
    let arguments = arguments.into_pyobject(py)?;
    // `pyo3::ffi` declares that this function must not unwind, so the compiler would leave `stay`
    // out. `black_box` hides the function from the compiler. SAFETY: it is the same
    // function, with a type that may unwind.
    let call: Call =
        std::hint::black_box(unsafe { mem::transmute::<*const (), Call>(ffi::PyObject_Call as *const ()) });
    let stay = Stay;
    // SAFETY: the callable and the tuple are valid; the result is a new reference, or null with an
    // exception.
    let found = unsafe { call(function.as_ptr(), arguments.as_ptr(), ptr::null_mut()) };
    mem::forget(stay);
    // SAFETY: as above.
    unsafe { Bound::from_owned_ptr_or_err(py, found) }
}

/// Ends the waits of all other threads, at the end of the interpreter. These threads stay outside.
pub fn end_all(py: Python<'_>) {
    IS_ENDING.store(true, Ordering::SeqCst);
    lock(&WAKERS).values().for_each(Waker::wake);
    py.detach(|| {
        let until = Instant::now() + END_TIME;
        while OUTSIDE.load(Ordering::SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// Forgets the threads of the parent.
pub fn after_fork() {
    WATCHER.store(ptr::null_mut(), Ordering::SeqCst);
    OUTSIDE.store(0, Ordering::SeqCst);
    // The parent's wakers do nothing in this process, and are not dropped.
    mem::forget(mem::take(&mut *lock(&WAKERS)));
}

/// The data that the signal pipe and the thread share with the main thread.
struct Watcher {
    read_end: c_int,
    write_end: c_int,
    current: Mutex<Current>,
}

#[derive(Default)]
struct Current {
    waker: Option<Waker>,
    /// The numbers of the signals that came during this wait.
    signals: Vec<u8>,
    /// Whether the wait was woken for them.
    is_woken: bool,
}

impl Watcher {
    /// Returns the watcher of this process. The first wait makes it.
    fn get() -> PyResult<&'static Self> {
        // SAFETY: the pointer is null, or points to a watcher that is never freed.
        if let Some(watcher) = unsafe { WATCHER.load(Ordering::SeqCst).as_ref() } {
            return Ok(watcher);
        }
        let watcher: &'static Self = Box::leak(Box::new(Self::new()?));
        let started = without_signals(|| {
            std::thread::Builder::new().name("stripline-signals".into()).spawn(|| watcher.watch())
        });
        started.map_err(|error| PyOSError::new_err(format!("cannot start a thread for signals: {error}")))?;
        WATCHER.store(ptr::from_ref(watcher).cast_mut(), Ordering::SeqCst);
        Ok(watcher)
    }

    fn new() -> PyResult<Self> {
        let mut ends = [0; 2];
        let failed = || {
            let error = std::io::Error::last_os_error();
            PyOSError::new_err(format!("cannot make a pipe for signals: {error}"))
        };
        // SAFETY: the array has room for both ends.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(failed());
        }
        // Python requires this, because the signal handler must not block. SAFETY: the descriptor
        // is ours, and may have this flag.
        if unsafe { libc::fcntl(ends[1], libc::F_SETFL, libc::O_NONBLOCK) } != 0 {
            return Err(failed());
        }
        Ok(Self { read_end: ends[0], write_end: ends[1], current: Mutex::default() })
    }

    fn watch(&self) {
        let mut bytes = [0_u8; 64];
        loop {
            // SAFETY: the descriptor stays open, and the memory has that length.
            let count = unsafe { libc::read(self.read_end, bytes.as_mut_ptr().cast(), bytes.len()) };
            let Ok(count @ 1..) = usize::try_from(count) else { continue };
            let mut current = lock(&self.current);
            let Current { waker, signals, is_woken } = &mut *current;
            if let Some(waker) = waker {
                *is_woken = true;
                signals.extend_from_slice(&bytes[..count]);
                waker.wake();
            }
        }
    }
}

/// A wait of the main thread that signals can end.
struct Watch {
    watcher: &'static Watcher,
    /// The descriptor that the program has set, or -1.
    before: c_int,
}

impl Watch {
    fn begin(py: Python<'_>, waker: &Waker) -> PyResult<Self> {
        let watcher = Watcher::get()?;
        *lock(&watcher.current) = Current { waker: Some(waker.clone()), ..Current::default() };
        let before = set_wakeup_fd(py, watcher.write_end)?;
        Ok(Self { watcher, before })
    }

    fn end(self, py: Python<'_>) -> PyResult<()> {
        let Self { watcher, before } = self;
        let restored = set_wakeup_fd(py, before);
        let Current { signals, .. } = mem::take(&mut *lock(&watcher.current));
        if before != -1 && !signals.is_empty() {
            // Like Python's own handler, this does not wait for room. SAFETY: the memory has that
            // length; the descriptor is the program's, and does not block.
            unsafe { libc::write(before, signals.as_ptr().cast(), signals.len()) };
        }
        restored.map(drop)
    }
}

fn set_wakeup_fd(py: Python<'_>, descriptor: c_int) -> PyResult<c_int> {
    static SET: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    SET.import(py, "signal", "set_wakeup_fd")?.call1((descriptor,))?.extract()
}

/// Runs a call that may start threads of the library, without the interpreter's lock. These threads
/// get no signals, because Python notices a signal at once only if the main thread gets it.
pub fn quietly<T: Send>(py: Python<'_>, call: impl FnOnce() -> T + Send) -> T {
    detached(py, || without_signals(call))
}

/// Runs a call without the interpreter's lock. A thread that returns after the interpreter has
/// begun to end stays outside, because it could not enter.
pub fn detached<T: Send>(py: Python<'_>, call: impl FnOnce() -> T + Send) -> T {
    if is_main_thread() {
        return py.detach(call);
    }
    OUTSIDE.fetch_add(1, Ordering::SeqCst);
    let found = py.detach(|| stay_if_ending(call()));
    OUTSIDE.fetch_sub(1, Ordering::SeqCst);
    found
}

/// Returns the outcome of a wait, unless the interpreter is ending.
fn stay_if_ending<T>(found: T) -> T {
    if !is_ending() {
        return found;
    }
    OUTSIDE.fetch_sub(1, Ordering::SeqCst);
    // A thread must not return to an interpreter that is ending.
    loop {
        std::thread::park();
    }
}

/// Starts a thread that gets no signals.
pub fn without_signals<T>(start: impl FnOnce() -> T) -> T {
    // SAFETY: both sets are filled before they are used, and the mask of this thread is restored.
    unsafe {
        let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = start();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, ptr::null_mut());
        started
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
