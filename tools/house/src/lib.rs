//! The house rules as tests: the prose of comments and Markdown, the glossary, the documents, the
//! names, the layers, the circles of files, the threads, the times, the transport seam and the
//! features of other middleware.
//!
//! CONTRIBUTING.md has the rules.

#![cfg(test)]
#![allow(clippy::unwrap_used, reason = "a panic is the failure of the test")]

mod circles;
mod comments;
mod documents;
mod glossary;
mod layers;
mod middleware;
mod names;
mod prose;
mod seam;
mod threads;
mod times;
mod tree;
