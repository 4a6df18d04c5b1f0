//! Finds Cyclone DDS, translates the IDL with the compiler of Cyclone DDS, and compiles the result
//! together with the C functions.

fn main() {
    #[cfg(feature = "cyclonedds")]
    cyclone::build();
}

#[cfg(feature = "cyclonedds")]
mod cyclone {
    use std::path::{Path, PathBuf};
    use std::process::Command;

    /// The oldest version that has all functions used here.
    const VERSION: &str = "0.10";
    /// The instructions to get everything that the build needs.
    const REMEDY: &str = "install Cyclone DDS 0.10 (Debian: cyclonedds-dev and cyclonedds-tools), name its folder in \
        CYCLONEDDS_HOME, or build without the feature `dds`";

    pub fn build() {
        if let Err(problem) = try_build() {
            eprintln!("Cyclone DDS: {problem}; {REMEDY}");
            std::process::exit(1);
        }
    }

    fn try_build() -> Result<(), String> {
        for changed in ["build.rs", "idl", "c"] {
            println!("cargo::rerun-if-changed={changed}");
        }
        println!("cargo::rerun-if-env-changed=CYCLONEDDS_HOME");
        let home = std::env::var_os("CYCLONEDDS_HOME").map(PathBuf::from);
        let folders = find_library(home.as_deref())?;
        let out = PathBuf::from(std::env::var_os("OUT_DIR").ok_or("there is no OUT_DIR")?);
        translate(home.as_deref(), &out)?;
        let mut compiler = cc::Build::new();
        compiler.file(out.join("Stripline.c")).file("c/cyclone.c").include(&out).includes(folders);
        compiler.warnings(true).extra_warnings(true).flag_if_supported("-Wno-unused-parameter");
        compiler.try_compile("stripline_cyclone").map_err(|e| format!("the C side does not compile: {e}"))?;
        // Link the library after the C code, which needs the library.
        println!("cargo::rustc-link-lib=ddsc");
        Ok(())
    }

    /// Makes cargo link the library, and returns the folders of the headers.
    fn find_library(home: Option<&Path>) -> Result<Vec<PathBuf>, String> {
        if let Some(home) = home {
            let header = home.join("include/dds/dds.h");
            if !header.is_file() {
                return Err(format!("there is no {}", header.display()));
            }
            println!("cargo::rustc-link-search=native={}", home.join("lib").display());
            return Ok(vec![home.join("include")]);
        }
        let found = pkg_config::Config::new()
            .cargo_metadata(false)
            .range_version(VERSION..)
            .probe("CycloneDDS")
            .map_err(|e| format!("it is not found by pkg-config ({e})"))?;
        for folder in &found.link_paths {
            println!("cargo::rustc-link-search=native={}", folder.display());
        }
        Ok(found.include_paths)
    }

    /// Runs the IDL compiler.
    fn translate(home: Option<&Path>, out: &Path) -> Result<(), String> {
        let tool = home.map_or_else(|| "idlc".into(), |home| home.join("bin/idlc"));
        let ran = Command::new(&tool).args(["-t", "-o"]).arg(out).arg("idl/Stripline.idl").output();
        let ran = ran.map_err(|e| format!("cannot run {}, its compiler of IDL: {e}", tool.display()))?;
        if ran.status.success() && out.join("Stripline.c").is_file() {
            return Ok(());
        }
        let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
        Err(format!("{} does not translate idl/Stripline.idl: {}", tool.display(), printed.trim()))
    }
}
