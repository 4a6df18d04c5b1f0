//! Adds the transports over middleware to each process of these tests, before `main`.

extern "C" fn register() {
    stripline_middleware::register();
}

// SAFETY: the system calls each function of this section once, before `main` and in its thread.
#[used]
#[unsafe(link_section = ".init_array")]
static REGISTER: extern "C" fn() = register;
