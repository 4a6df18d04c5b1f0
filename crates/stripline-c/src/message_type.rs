//! Message types, parsed from text.

use stripline_bindings::{PortType, message_type};

use crate::border::Str;
use crate::error::Failure;

impl Str {
    /// Returns the type of a port of messages. NULL is the type of any message.
    pub(crate) fn message_type(&self) -> Result<PortType, Failure> {
        let text = self.optional("type")?.unwrap_or("message/cbor");
        message_type(text).map(PortType::Messages).map_err(|failure| failure.within("`type`"))
    }
}
