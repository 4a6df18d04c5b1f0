//! The files that `stripline new` writes. Here they are built and tested as part of the command.

#![allow(dead_code, reason = "a program uses what its waveform needs")]

mod detector;
mod filter;
mod mixer;
mod power;
mod sink;
mod source;
