//! Finds omniORB, translates the IDL with the compiler of omniORB, and compiles the C++ side.

fn main() {
    #[cfg(feature = "omniorb")]
    omniorb::build();
}

#[cfg(feature = "omniorb")]
mod omniorb {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// The instructions for a build in which a part of omniORB is missing.
    const REMEDY: &str =
        "install omniORB 4: on Debian, the packages `libomniorb4-dev` and `omniidl`, with `g++`";

    const SOURCES: [&str; 6] =
        ["orb.cc", "tls.cc", "path.cc", "bulkio_provides.cc", "bulkio_references.cc", "bulkio_uses.cc"];
    const INTERFACES: [&str; 2] = ["path", "bulkio"];

    pub fn build() {
        println!("cargo::rerun-if-changed=cpp");
        println!("cargo::rerun-if-changed=idl");
        if let Err(problem) = try_build() {
            println!("cargo::error=the feature `corba`: {problem}; {REMEDY}");
        }
    }

    fn try_build() -> Result<(), String> {
        let includes = find_library()?;
        let internal = includes.iter().map(|folder| folder.join("omniORB4/internal"));
        // `pkg-config` omits the standard folder.
        let internal: Vec<_> = internal.chain(["/usr/include/omniORB4/internal".into()]).collect();
        let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("no OUT_DIR")?);
        let mut build = cc::Build::new();
        build.cpp(true).std("c++17").includes(&includes).includes(internal).include("cpp").include(&out);
        // The headers of omniORB have functions with unused arguments.
        build.warnings(false);
        let has_tls = find_tls(&includes);
        if has_tls {
            build.define("STRIPLINE_CORBA_TLS", None);
        }
        for name in INTERFACES {
            translate(name, &out)?;
            build.file(out.join(format!("{name}SK.cc")));
        }
        let bare = std::env::var_os("CARGO_FEATURE_BARE").map(|_| "bare.cc");
        for source in SOURCES.into_iter().chain(bare) {
            build.file(Path::new("cpp").join(source));
        }
        build.try_compile("stripline_corba").map_err(|e| format!("the C++ side does not compile: {e}"))?;
        // Link these libraries after the C++ side, which needs them.
        for library in ["omnisslTP4", "ssl", "crypto"].iter().filter(|_| has_tls) {
            println!("cargo::rustc-link-lib={library}");
        }
        Ok(())
    }

    /// Returns whether the TLS support of omniORB is installed. Not every build of omniORB has it.
    fn find_tls(includes: &[PathBuf]) -> bool {
        let usual = ["/usr/include", "/usr/local/include", "/opt/omniORB/include"].map(PathBuf::from);
        let has_context = |folder: &PathBuf| folder.join("omniORB4/sslContext.h").exists();
        let is_there = includes.iter().chain(&usual).any(has_context);
        is_there && pkg_config::Config::new().cargo_metadata(false).probe("openssl").is_ok()
    }

    /// Finds omniORB with `pkg-config` or in the standard folders. Returns the folders of the
    /// headers.
    fn find_library() -> Result<Vec<PathBuf>, String> {
        // This library has the values of type `any`, and depends on the other libraries.
        let probe = pkg_config::Config::new().range_version("4.2".."5").probe("omniDynamic4");
        let error = match probe {
            Ok(library) => return Ok(library.include_paths),
            Err(error) => error,
        };
        let usual = ["/usr/include", "/usr/local/include", "/opt/omniORB/include"].map(PathBuf::from);
        let Some(headers) = usual.iter().find(|folder| folder.join("omniORB4/CORBA.h").exists()) else {
            let reason = error.to_string();
            let reason = reason.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            return Err(format!("omniORB is missing ({reason})"));
        };
        if let Some(root) = headers.parent() {
            println!("cargo::rustc-link-search=native={}", root.join("lib").display());
        }
        for library in ["omniDynamic4", "omniORB4", "omnithread"] {
            println!("cargo::rustc-link-lib={library}");
        }
        Ok(vec![headers.clone()])
    }

    /// Translates an IDL file to C++.
    fn translate(name: &str, out: &Path) -> Result<(), String> {
        let mut omniidl = Command::new("omniidl");
        omniidl.args(["-bcxx", "-Wbh=.hh", "-Wbs=SK.cc", "-C"]).arg(out).arg(format!("idl/{name}.idl"));
        let output =
            omniidl.output().map_err(|e| format!("`omniidl`, the compiler of IDL, does not start ({e})"))?;
        let problem = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("`omniidl` refuses {name}.idl: {problem}")) }
    }
}
