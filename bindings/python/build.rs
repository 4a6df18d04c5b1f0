//! Sets `Py_GIL_DISABLED` for builds of Python without the interpreter's lock.

fn main() {
    pyo3_build_config::use_pyo3_cfgs();
}
