//! The contract of Stripline as tests. They run over every transport of this build, in this process
//! and in others:
//!
//! | tests | contract |
//! | --- | --- |
//! | `conformance` | links: order, ends, gaps, overflow, scopes, restarts, trust |
//! | `calls` | two-way calls |
//! | `packet_cost` | system calls and allocations per packet |
//! | `system` | forks, users, memory, floods, other hosts |
//!
//! The library itself is empty.
