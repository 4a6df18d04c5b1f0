//! The files that `stripline new` writes. Files in Rust are also built and tested as part of the
//! command.

#![allow(dead_code, reason = "a program uses what its waveform needs")]

mod detector;
mod filter;
mod mixer;
mod power;
mod sink;
mod source;
