//! Sets the name under which programs find the shared library when they start.

fn main() {
    // The number goes up when a program built against an older header would fail.
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libstripline.so.0");
    println!("cargo:rerun-if-changed=build.rs");
}
