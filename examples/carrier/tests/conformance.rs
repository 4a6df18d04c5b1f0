//! The link contract over the transport `pipe`.

stripline_conformance::link_rules! { stripline_pipe::register; pipe }
