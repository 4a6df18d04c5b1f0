#!/bin/sh
# Ends as a Rust program that panics.
cat >&2 <<'END'

thread 'main' (4711) panicked at src/main.rs:12:9:
`Detection` is not a valid message name:
a name has only small letters
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
END
exit 101
