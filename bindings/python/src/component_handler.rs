//! Components with a handler: the waveform selects the threads that run it.

use std::sync::Arc;

use pyo3::prelude::*;
use stripline::Error;
use stripline::component::{Direction, Ports as RustPorts};
use stripline::node::PacketView;
use stripline::payload::Dynamic;
use stripline_bindings::{only_port, run_handler};

use crate::array::{ArrayType, Bytes};
use crate::component::{Instance, Requests, function};
use crate::component_ports::Ports;
use crate::error;
use crate::forks::Owner;
use crate::packet::{Packet, Shared};
use crate::waits;

/// An array that a handler has returned.
struct ReturnedArray {
    /// The owner of the bytes. The owner is dropped without the interpreter's lock, so the next
    /// thread that has the lock frees it.
    _array: Py<PyAny>,
    bytes: Bytes,
}

/// The output of a handler.
struct Output {
    port: String,
    array: ArrayType,
}

/// Runs the handler for each packet, on the threads that the waveform selects.
pub fn run(instance: &Arc<Instance>, ports: RustPorts, requests: Option<Arc<Requests>>) -> Result<(), Error> {
    // The package has checked that there is one input.
    let spec = &instance.class.spec;
    let input = only_port(spec, Direction::Input).unwrap_or_default();
    let opened = Python::attach(|py| {
        let open = || -> PyResult<_> {
            let given = Bound::new(py, Ports::of_handler(ports, requests.clone()))?;
            let types = waits::call(
                function!(py, "_open_handler")?,
                (&instance.object, &given, &instance.class.record),
            )?;
            let (of_input, of_output): (Bound<'_, PyAny>, Option<Bound<'_, PyAny>>) = types.extract()?;
            let of_input = ArrayType::resolve(&of_input)?;
            let output = match (only_port(spec, Direction::Output), of_output) {
                (Some(port), Some(of)) => Some(Output { port: port.into(), array: ArrayType::resolve(&of)? }),
                _ => None,
            };
            let ports = given.get().take().ok_or_else(|| error::closed("the ports of", input))?;
            Ok((ports, of_input, output))
        };
        open().map_err(|raised| instance.class.failed(py, raised))
    });
    let (mut ports, array, made) = opened?;
    let source = ports.input::<Dynamic>((input, &array.samples))?;
    let mut output = match &made {
        Some(made) => Some(ports.output::<Dynamic>((&made.port, &made.array.samples))?),
        None => None,
    };
    let shared = Arc::new(Shared::new(input, array));
    let handle = |packet: PacketView<'_, Dynamic>| handle(instance, &shared, &packet, made.as_ref());
    run_handler(source, requests, handle, |packet, made| {
        if let Some(output) = &mut output {
            let samples = made.as_ref().map_or(0, |made| made.bytes.samples);
            let mut loan = output.loan(samples)?;
            if let Some(made) = &made {
                // SAFETY: `made` keeps the array alive, and a loan does not overlap it.
                unsafe { made.bytes.copy_to(&mut loan) };
            }
            loan.send_like(&packet)?;
        }
        Ok(())
    })
}

/// Returns the array that the handler makes from a packet; `None`: an empty packet.
fn handle(
    instance: &Instance,
    shared: &Arc<Shared>,
    view: &PacketView<'_, Dynamic>,
    output: Option<&Output>,
) -> Result<Option<ReturnedArray>, Error> {
    Python::attach(|py| {
        let call = || -> PyResult<Option<ReturnedArray>> {
            let packet = Packet::of_handler(py, Arc::clone(shared), Owner::current(), view)?;
            let found = waits::call(&instance.object.bind(py).getattr("handle")?, (packet,))?;
            match output {
                _ if found.is_none() => Ok(None),
                None => Err(error::argument("`handle` has returned an array, but there is no output".into())),
                Some(output) => {
                    let place = || Ok((Arc::clone(view.stream()), view.sample_index()));
                    let bytes = output.array.bytes_of(&found, &output.port, place)?;
                    Ok(Some(ReturnedArray { _array: found.unbind(), bytes }))
                }
            }
        };
        call().map_err(|raised| instance.class.failed(py, raised))
    })
}
