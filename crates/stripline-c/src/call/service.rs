//! Services: operations that are named at run time, and their handlers.

use std::ffi::c_void;
use std::sync::{Mutex, PoisonError};

use stripline::call::{Operation as RustOperation, Responder as RustResponder, Service as RustService};
use stripline_bindings::Answer;

use crate::border::{ErrorOut, Handle, Out, Ref, Str};
use crate::error::{Failure, missing};
use crate::handle::drop_quietly;
use crate::status::Status;

use super::{CallHandler, OperationType, Responder};

/// A service: a name, operations and their handlers. Any number of servers can be made from it.
pub struct Service {
    name: String,
    operations: Mutex<Vec<HandledOperation>>,
}

/// An operation and a handler.
#[derive(Clone)]
struct HandledOperation {
    operation: RustOperation,
    doc: String,
    target: HandlerTarget,
}

#[derive(Clone, Copy)]
struct HandlerTarget {
    handler: CallHandler,
    context: *mut c_void,
}

// SAFETY: the program promises that the handler may be called with this context on the threads that
// serve.
unsafe impl Send for HandlerTarget {}
// SAFETY: as above; with a pool, on several threads at once.
unsafe impl Sync for HandlerTarget {}

impl HandlerTarget {
    fn run(&self, request: &[u8], responder: RustResponder) {
        let responder = Box::into_raw(Box::new(Responder(Answer::new(responder))));
        // SAFETY: the program promises that the handler may be called with this context.
        unsafe { (self.handler)(self.context, request.as_ptr().cast(), request.len(), responder) };
    }
}

impl Ref<Service> {
    /// Returns the service for a server.
    pub(super) fn make(&self) -> Result<RustService<'static>, Failure> {
        let found = self.get("service")?;
        let mut made = RustService::new(&found.name)?;
        let operations = found.operations.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for HandledOperation { operation, doc, target } in operations {
            made = made.operation_of(operation, move |request, responder| target.run(request, responder))?;
            made = made.doc(&doc);
        }
        Ok(made)
    }
}

/// Makes a service without operations. Clients find it by name: 1 to 64 letters, digits, `-`, `_`,
/// `.`.
///
/// - Ownership: the caller frees the service, before or after the servers. `name` is not kept.
/// - Blocking: never.
/// - Threads: any.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_service_new(name: Str, service: Out<*mut Service>, error: ErrorOut) -> Status {
    error.guard(|| {
        service.check("service")?;
        let name = name.required("name")?;
        RustService::new(name).map_err(|error| Failure::argument(error.to_string()))?;
        service.give("service", Service { name: name.into(), operations: Mutex::default() })
    })
}

/// Adds an operation and a handler, for servers that are made from the service later. `doc` is a
/// description that clients can show, or NULL.
///
/// Fails with `STRIPLINE_INVALID_ARGUMENT` for an invalid name or type, for a second operation of
/// the same name, and for more than 128 operations.
///
/// - Ownership: the program keeps `context`, which must be valid until the servers of the service
///   are freed. NULL is allowed. Nothing else is kept.
/// - Blocking: never.
/// - Threads: any. The handler runs on the threads that serve.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn stripline_service_add(
    service: Handle<Service>,
    operation: Ref<OperationType>,
    handler: Option<CallHandler>,
    context: *mut c_void,
    doc: Str,
    error: ErrorOut,
) -> Status {
    error.guard(|| {
        let (found, operation) = (service.get("service")?, operation.operation()?);
        let doc = doc.optional("doc")?.unwrap_or("").into();
        let handler = handler.ok_or_else(|| missing("handler"))?;
        let mut operations = found.operations.lock().unwrap_or_else(PoisonError::into_inner);
        if operations.iter().any(|served| served.operation.name == operation.name) {
            let (service, name) = (&found.name, &operation.name);
            return Err(Failure::argument(format!("service `{service}` has an operation `{name}` already")));
        }
        if operations.len() >= RustService::OPERATIONS_MAX {
            let most = RustService::OPERATIONS_MAX;
            return Err(Failure::argument(format!("a service has at most {most} operations")));
        }
        operations.push(HandledOperation { operation, doc, target: HandlerTarget { handler, context } });
        Ok(Status::Ok)
    })
}

/// Frees a service; NULL is allowed. Servers made from it continue.
///
/// - Ownership: ends with this call. A second call with the same service is undefined.
/// - Blocking: never.
/// - Threads: any, once no other thread uses it.
#[unsafe(no_mangle)]
pub extern "C" fn stripline_service_free(service: Handle<Service>) {
    drop_quietly(service.into_box());
}
