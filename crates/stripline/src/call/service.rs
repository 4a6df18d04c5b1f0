//! A service with a name, operations and their handlers.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::packet::payload::TypeName;

use super::replies::ReplySender;
use super::wire::ReplyStatus;
use super::{Payload, Refusal, Responder};

/// The public description of an operation.
///
/// ```
/// use stripline::call::Operation;
///
/// let tune = Operation::of::<f64, f64, String>("tune")?;
/// assert_eq!((tune.name.as_str(), tune.request.as_str()), ("tune", "message/cbor"));
/// # Ok::<(), stripline::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// The name of the operation: 1 to [`Operation::NAME_MAX`] letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// The type of the request.
    pub request: TypeName,
    /// The type of the reply.
    pub reply: TypeName,
    /// The type of the operation's own errors.
    pub error: TypeName,
    /// The documentation of the operation: lines of text, empty if the server gives none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub doc: String,
}

impl Operation {
    /// The longest name, in bytes.
    pub const NAME_MAX: usize = 64;
    /// The most bytes of documentation that clients receive.
    pub const DOC_MAX: usize = 2048;
    /// The name of the operation of a service that has only one.
    pub const ONLY: &str = "call";

    /// Returns the operation with these types.
    ///
    /// # Errors
    /// An invalid name.
    pub fn of<Req: Payload, Rep: Payload, E: Payload>(name: &str) -> Result<Self> {
        Self::new(name, Req::type_name()?, Rep::type_name()?, E::type_name()?)
    }

    /// Returns the operation with these types by value: the types of request, reply and errors.
    ///
    /// # Errors
    /// An invalid name.
    ///
    /// ```
    /// use stripline::call::Operation;
    /// use stripline::payload::TypeName;
    ///
    /// let cbor = TypeName::message("cbor").expect("a name");
    /// let tune = Operation::new("tune", cbor.clone(), cbor.clone(), cbor)?;
    /// assert_eq!(tune, Operation::of::<f64, f64, String>("tune")?);
    /// # Ok::<(), stripline::Error>(())
    /// ```
    pub fn new(name: &str, request: TypeName, reply: TypeName, error: TypeName) -> Result<Self> {
        check_name("operation", name)?;
        Ok(Self { name: name.into(), request, reply, error, doc: String::new() })
    }

    /// Returns whether both operations have the same name and types.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let types =
            |operation: &Self| (operation.request.clone(), operation.reply.clone(), operation.error.clone());
        self.name == other.name && types(self) == types(other)
    }
}

/// The most bytes of JSON for operations in a welcome, which leaves room for everything else.
const ERROR_BYTES_MAX: usize = 56 << 10;

/// Cuts a text that is too long, and marks the cut.
fn cut(text: &mut String, bytes_max: usize) {
    const MARK: &str = "…";
    if text.len() <= bytes_max {
        return;
    }
    let end = (0..=bytes_max.saturating_sub(MARK.len())).rev().find(|end| text.is_char_boundary(*end));
    text.truncate(end.unwrap_or(0));
    if bytes_max >= MARK.len() {
        text.push_str(MARK);
    }
}

pub(super) fn check_name(what: &str, name: &str) -> Result<()> {
    let sound = !name.is_empty()
        && name.len() <= Operation::NAME_MAX
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.'));
    if sound {
        return Ok(());
    }
    let name: String = name.chars().take(80).collect();
    let max = Operation::NAME_MAX;
    Err(Error::InvalidArgument(format!(
        "`{name}` is not a valid {what} name: use 1 to {max} letters, digits, `-`, `_`, `.`"
    )))
}

/// The context of a call, passed to the handler.
///
/// ```
/// use stripline::call::{Context, Service};
///
/// let greet = |name: String, context: &Context<'_>| -> Result<String, String> {
///     Ok(format!("{name}, you came as {}", context.client()))
/// };
/// let service = Service::new("greeter")?.operation_with("greet", greet)?;
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Context<'a> {
    pub(super) replies: &'a Arc<ReplySender>,
    pub(super) number: u64,
    pub(super) deadline_us: u32,
    pub(super) cancelled: Option<&'a AtomicBool>,
}

impl Context<'_> {
    /// Returns the name of the client's connection.
    pub fn client(&self) -> &str {
        &self.replies.connection
    }

    /// Returns the time for which the client waits for the reply, counted from the call.
    pub fn deadline(&self) -> Duration {
        Duration::from_micros(u64::from(self.deadline_us))
    }

    /// Returns whether the client has cancelled the call in the meantime. Only a pool detects this.
    /// With other kinds of dispatch it is always false, because no thread reads messages while the
    /// handler runs.
    pub fn is_cancelled(&self) -> bool {
        // Relaxed: a hint that orders no other data.
        self.cancelled.is_some_and(|flag| flag.load(Ordering::Relaxed))
    }
}

/// A function that takes the reply of a handler.
pub(super) type ReplyTo<'a> = &'a mut dyn FnMut(ReplyStatus, &[u8]);

/// A function that runs an operation on the bytes of a request.
pub(super) type OperationHandler<'h> =
    Box<dyn Fn(&[u8], &Context<'_>, &mut Vec<u8>, ReplyTo<'_>) + Send + Sync + 'h>;

/// A service: named operations and their handlers.
///
/// A handler takes the request and returns the reply, or the operation's own error. With a
/// [pool](crate::node::Dispatch::Pool) it runs on several threads at once.
///
/// ```
/// use std::sync::Mutex;
/// use stripline::call::Service;
///
/// let frequency_hz = Mutex::new(100e6);
/// let service = Service::new("tuner")?
///     .operation("tune", |hz: f64| match hz {
///         0.0..=6e9 => Ok(*frequency_hz.lock().expect("not poisoned") = hz),
///         _ => Err(format!("{hz} Hz is out of range")),
///     })?
///     .operation("frequency", |()| Ok::<f64, String>(*frequency_hz.lock().expect("not poisoned")))?;
/// assert_eq!(service.operations().len(), 2);
/// # Ok::<(), stripline::Error>(())
/// ```
pub struct Service<'h> {
    name: String,
    operations: Vec<Operation>,
    pub(super) handlers: Vec<OperationHandler<'h>>,
}

impl<'h> Service<'h> {
    /// The most operations of a service.
    pub const OPERATIONS_MAX: usize = 128;

    /// Creates a service without operations. Clients find the service by its name: 1 to
    /// [`Operation::NAME_MAX`] letters, digits, `-`, `_`, `.`.
    ///
    /// # Errors
    /// An invalid name.
    pub fn new(name: &str) -> Result<Self> {
        check_name("service", name)?;
        Ok(Self { name: name.into(), operations: Vec::new(), handlers: Vec::new() })
    }

    /// Adds an operation.
    ///
    /// # Errors
    /// An invalid or duplicate name, or one operation too many.
    pub fn operation<Req: Payload, Rep: Payload, E: Payload>(
        self,
        name: &str,
        handler: impl Fn(Req) -> Result<Rep, E> + Send + Sync + 'h,
    ) -> Result<Self> {
        self.operation_with(name, move |request, _: &Context<'_>| handler(request))
    }

    /// Adds an operation with a handler that takes the context of the call.
    ///
    /// # Errors
    /// Same as [`Service::operation`].
    pub fn operation_with<Req: Payload, Rep: Payload, E: Payload>(
        self,
        name: &str,
        handler: impl Fn(Req, &Context<'_>) -> Result<Rep, E> + Send + Sync + 'h,
    ) -> Result<Self> {
        let operation = Operation::of::<Req, Rep, E>(name)?;
        self.with_handler(operation, move |bytes, context, scratch, answer| {
            let request = match Req::decode(bytes) {
                Ok(request) => request,
                Err(problem) => return answer(ReplyStatus::Refused(Refusal::WrongType), problem.as_bytes()),
            };
            let outcome = handler(request, context);
            let encoded = match &outcome {
                Ok(reply) => reply.encode(scratch).map(|bytes| (ReplyStatus::Done, bytes)),
                Err(error) => error.encode(scratch).map(|bytes| (ReplyStatus::UserError, bytes)),
            };
            match encoded {
                Ok((status, bytes)) => answer(status, bytes),
                Err(error) => answer(ReplyStatus::Refused(Refusal::Failed), error.to_string().as_bytes()),
            }
        })
    }

    /// Adds an operation with types by value. The handler gets the bytes of a request and a
    /// [`Responder`]. The handler answers through the responder, immediately or later on another
    /// thread. The bytes are not checked against the type.
    ///
    /// A call counts as served when the handler returns. From then on, [`Context::is_cancelled`]
    /// and the check for cycles of calls no longer apply.
    ///
    /// # Errors
    /// Same as [`Service::operation`].
    pub fn operation_of(
        self,
        operation: Operation,
        handler: impl Fn(&[u8], Responder) + Send + Sync + 'h,
    ) -> Result<Self> {
        check_name("operation", &operation.name)?;
        self.with_handler(operation, move |bytes, context, _, _| {
            let responder = Responder::new(context.replies, context.number, context.deadline_us);
            let claim = responder.claim();
            // A call has one reply, even if the handler has given the responder away.
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| handler(bytes, responder)))
                && claim.take()
            {
                resume_unwind(panic);
            }
        })
    }

    fn with_handler(
        mut self,
        operation: Operation,
        handler: impl Fn(&[u8], &Context<'_>, &mut Vec<u8>, ReplyTo<'_>) + Send + Sync + 'h,
    ) -> Result<Self> {
        let name = &operation.name;
        if self.operations.iter().any(|known| known.name == *name) {
            return Err(Error::InvalidArgument(format!(
                "service `{}` has two operations `{name}`",
                self.name
            )));
        }
        if self.operations.len() >= Self::OPERATIONS_MAX {
            let max = Self::OPERATIONS_MAX;
            return Err(Error::InvalidArgument(format!(
                "service `{}` has more than {max} operations",
                self.name
            )));
        }
        self.operations.push(operation);
        self.handlers.push(Box::new(handler));
        Ok(self)
    }

    /// Sets the documentation of the operation that was added last. Clients can display it
    /// ([`ServerReport::operations`](super::ServerReport::operations)).
    /// [`stripline::service`](macro@crate::service) takes it from the documentation of the trait.
    ///
    /// Clients receive at most [`Operation::DOC_MAX`] bytes of it, and fewer if there are very many
    /// operations.
    ///
    /// ```
    /// use stripline::call::Service;
    ///
    /// let service = Service::new("root")?
    ///     .operation("root", |x: f64| Ok::<f64, String>(x.sqrt()))?
    ///     .doc("The square root of what is not negative.");
    /// assert_eq!(service.operations()[0].doc, "The square root of what is not negative.");
    /// # Ok::<(), stripline::Error>(())
    /// ```
    #[must_use]
    pub fn doc(mut self, text: &str) -> Self {
        if let Some(operation) = self.operations.last_mut() {
            // In a doc comment, a space follows `///`.
            let connections: Vec<&str> =
                text.lines().map(|connection| connection.strip_prefix(' ').unwrap_or(connection)).collect();
            operation.doc = connections.join("\n").trim().to_string();
        }
        self
    }

    /// Returns the operations in the form sent to clients, with no more text than fits.
    pub(super) fn describe_operations(&self) -> Vec<Operation> {
        let mut operations = self.operations.clone();
        let mut bytes_max = Operation::DOC_MAX;
        loop {
            for operation in &mut operations {
                cut(&mut operation.doc, bytes_max);
            }
            let bytes = serde_json::to_vec(&operations).map_or(0, |text| text.len());
            if bytes <= ERROR_BYTES_MAX || bytes_max == 0 {
                return operations;
            }
            bytes_max /= 2;
        }
    }

    /// Returns the name of the service.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the operations of the service, in the order of their numbers.
    pub fn operations(&self) -> &[Operation] {
        &self.operations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_docs(operations: usize, doc: &str) -> Service<'static> {
        (0..operations).fold(Service::new("many").unwrap(), |service, number| {
            let name = format!("{number:0>64}");
            service.operation(&name, |(): ()| Ok::<(), String>(())).unwrap().doc(doc)
        })
    }

    #[test]
    fn lines_of_comments_are_text() {
        let doc = &with_docs(1, " Tunes.\n\n     indented\n ").operations[0].doc;
        assert_eq!(doc, "Tunes.\n\n    indented");
        assert_eq!(with_docs(0, "no operation").operations.len(), 0);
    }

    #[test]
    fn no_more_is_told_than_fits() {
        // The first character takes two bytes, so that a cut may fall inside one. The other takes
        // six bytes, escaped in JSON.
        for doc in ["\u{e9}".repeat(5000), "\u{1}".repeat(5000)] {
            for operations in [1, 100, Service::OPERATIONS_MAX] {
                let service = with_docs(operations, &doc);
                let told = service.describe_operations();
                assert!(serde_json::to_vec(&told).unwrap().len() <= ERROR_BYTES_MAX, "{operations}");
                assert!(told.iter().all(|told| told.doc.len() <= Operation::DOC_MAX));
                let texts = told.iter().filter(|told| told.doc.ends_with('…')).count();
                assert_eq!(texts, operations);
                assert_eq!(service.operations[0].doc, doc.trim());
            }
        }
        assert_eq!(with_docs(2, "short").describe_operations()[1].doc, "short");
    }
}
