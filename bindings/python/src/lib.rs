//! The extension module `stripline._stripline`: nodes, publishers, subscribers and packets for
//! Python.
//!
//! Every class is frozen and has its state in a mutex that is only tried. So a second thread gets
//! an error, and never waits with the interpreter's lock. A wait releases that lock (`waits`).

mod array;
mod at_exit;
mod calls;
mod component;
mod component_handler;
mod component_ports;
mod error;
mod forks;
mod form;
mod frames;
mod harness;
mod held_array;
mod input;
mod lender;
mod library_log;
mod loan;
mod loan_in_place;
mod messages;
mod node;
mod one_user;
mod pace;
mod packet;
mod publisher;
mod service;
mod stream;
mod subscriber;
mod value;
mod waits;
mod windows;

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::IntoPyDict;

#[pymodule]
fn _stripline(module: &Bound<'_, PyModule>) -> PyResult<()> {
    refuse_subinterpreters()?;
    stripline_middleware::register();
    let py = module.py();
    // The version in the form of the wheel: 0.1.0a1 for 0.1.0-alpha.1.
    let version =
        env!("CARGO_PKG_VERSION").replace("-alpha.", "a").replace("-beta.", "b").replace("-rc.", "rc");
    module.add("__version__", version)?;
    module.add_class::<node::Node>()?;
    module.add_class::<publisher::Publisher>()?;
    module.add_class::<loan::Loan>()?;
    module.add_class::<loan_in_place::LoanInPlace>()?;
    module.add_class::<subscriber::Subscriber>()?;
    module.add_class::<packet::Packet>()?;
    held_array::PacketMemory::class(py)?;
    module.add_class::<component_ports::Ports>()?;
    module.add_class::<component_ports::Readout>()?;
    module.add_class::<pace::Pace>()?;
    module.add_class::<harness::Harness>()?;
    module.add_class::<windows::WindowedSubscriber>()?;
    module.add_class::<windows::Window>()?;
    module.add_class::<messages::MessagePublisher>()?;
    module.add_class::<messages::MessageSubscriber>()?;
    module.add_class::<messages::MessageStamps>()?;
    module.add_class::<calls::ClientCore>()?;
    module.add_class::<calls::Pending>()?;
    module.add_class::<service::ServerCore>()?;
    module.add_class::<service::Responder>()?;
    module.add_function(wrap_pyfunction!(array::check_layout, module)?)?;
    module.add_function(wrap_pyfunction!(component::did_you_mean, module)?)?;
    module.add_function(wrap_pyfunction!(component::main, module)?)?;
    let after_fork = wrap_pyfunction!(forks::after_fork, module)?;
    py.import("os")?.call_method(
        "register_at_fork",
        (),
        Some(&[("after_in_child", after_fork)].into_py_dict(py)?),
    )?;
    let at_exit = wrap_pyfunction!(at_exit::at_exit, module)?;
    py.import("atexit")?.call_method1("register", (at_exit,))?;
    library_log::install();
    Ok(())
}

/// Refuses all interpreters of a process except the first, because all interpreters would share the
/// classes.
fn refuse_subinterpreters() -> PyResult<()> {
    // SAFETY: this thread is attached to an interpreter.
    let number = unsafe { ffi::PyInterpreterState_GetID(ffi::PyInterpreterState_Get()) };
    if number == 0 {
        return Ok(());
    }
    Err(PyImportError::new_err(format!(
        "stripline does not work in a subinterpreter (this is number {number}); import it in the main interpreter, or \
         start a process"
    )))
}
