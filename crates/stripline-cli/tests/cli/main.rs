//! Tests of the command as its users run it. Each file tests one kind of use.

#![allow(clippy::unwrap_used, reason = "test code outside of test functions")]

mod adsb;
mod auto;
mod bad_input;
mod bindings;
mod call;
mod closed_pipe;
mod common;
mod compare;
mod component_in_c;
mod control;
mod control_peers;
mod control_stop;
mod data;
mod devices;
mod dispatch;
mod experiment;
mod explain;
mod faults;
mod files;
mod full_disk;
mod generate;
mod habits;
mod killed_calls;
mod ladder;
mod limits;
mod links;
mod log;
mod moving;
mod network;
mod new;
mod outputs;
mod own_component;
mod pace;
mod pipes;
mod places;
mod printing;
mod promises;
mod recording;
mod restarts;
mod scan;
mod services;
mod signals;
mod terminal;
mod top;
mod trace;
mod web;
#[cfg(feature = "chromium-tests")]
mod web_browser;
