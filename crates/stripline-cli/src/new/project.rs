//! The templates of each language, and the files that build them.

use super::File;
use super::arguments::{ComponentKind, Language, PlaceArguments};
use super::place;
use crate::failure::Failure;

/// A component of the templates.
pub(super) struct Module {
    /// The name of the files, and of the component in the waveform file.
    pub name: &'static str,
    /// The kind of component that is this module alone.
    pub kind: Option<ComponentKind>,
    /// The component first, then the rest with the tests.
    pub files: &'static [(&'static str, &'static str)],
}

/// The projects of a language.
pub(super) struct Project {
    pub modules: &'static [&'static Module],
    /// The components of a waveform in order, each with its properties in the waveform file.
    pub order: &'static [(&'static Module, &'static str)],
    /// The folder of the modules.
    pub folder: &'static str,
    /// Whether all components are types of one program.
    pub is_one_program: bool,
    /// Returns the value of `exec` for a module of the named project.
    pub exec: fn(&str, &Module) -> String,
    /// Returns the files that make programs of modules.
    pub build: fn(&PlaceArguments, &[&Module]) -> Result<Vec<File>, Failure>,
    /// The commands that build and test a project.
    pub steps: &'static [&'static str],
    /// The installed library that the steps search for.
    pub package: Option<Package>,
}

/// A library that may be installed to the same prefix as this command.
pub(super) struct Package {
    /// A file of the library, below the prefix.
    pub file: &'static str,
    /// Returns a step that finds the library below a prefix.
    pub step: fn(&str, &str) -> String,
}

/// Makes a module of files in `templates`.
macro_rules! module {
    ($name:literal, $kind:expr, $folder:literal: $($file:literal),+) => {
        Module {
            name: $name,
            kind: $kind,
            files: &[$(($file, include_str!(concat!("templates/", $folder, $file)))),+],
        }
    };
}

/// The step in which CMake searches for the library.
const CMAKE: &str = "cmake -B build";

use ComponentKind::{Detector, Filter, Mixer, Source, Windowed};

const RUST: Project = {
    const FILTER: Module = module!("filter", Some(Filter), "": "filter.rs");
    const MIXER: Module = module!("mixer", Some(Mixer), "": "mixer.rs");
    const SOURCE: Module = module!("source", Some(Source), "": "source.rs");
    const POWER: Module = module!("power", Some(Windowed), "": "power.rs");
    const DETECTOR: Module = module!("detector", Some(Detector), "": "detector.rs");
    const SINK: Module = module!("sink", None, "": "sink.rs");
    Project {
        modules: &[&FILTER, &MIXER, &SOURCE, &POWER, &DETECTOR],
        order: &[
            (&SOURCE, "properties = { rate = 48e3, duration_s = 1.0 }\n"),
            (&POWER, ""),
            (&DETECTOR, "properties = { threshold = 0.05 }\n"),
            (&SINK, ""),
        ],
        folder: "src/",
        is_one_program: true,
        exec: |name, _| format!("\"target/debug/{name}\""),
        build: crate_files,
        steps: &["cargo test", "cargo build"],
        package: None,
    }
};

const PYTHON: Project = {
    const FILTER: Module = module!("filter", Some(Filter), "python/": "filter.py", "test_filter.py");
    const MIXER: Module = module!("mixer", Some(Mixer), "python/": "mixer.py", "test_mixer.py");
    const SOURCE: Module = module!("source", Some(Source), "python/": "source.py", "test_source.py");
    const POWER: Module = module!("power", Some(Windowed), "python/": "power.py", "test_power.py");
    const DETECTOR: Module =
        module!("detector", Some(Detector), "python/": "detector.py", "test_detector.py");
    const SINK: Module = module!("sink", None, "python/": "sink.py", "test_sink.py");
    Project {
        modules: &[&FILTER, &MIXER, &SOURCE, &POWER, &DETECTOR],
        order: &[
            (&SOURCE, "properties = { rate = 48e3, duration_s = 1.0 }\n"),
            (&POWER, ""),
            (&DETECTOR, "properties = { threshold = 0.05 }\n"),
            (&SINK, ""),
        ],
        folder: "",
        is_one_program: false,
        exec: |_, module| format!("[\"python3\", \"{}\"]", module.files[0].0),
        build: |arguments, _| {
            refuse_tree(arguments, "package", "pip install DIR/bindings/python")?;
            Ok(vec![(".gitignore".into(), "__pycache__/\n".into())])
        },
        steps: &["python3 -m unittest"],
        package: None,
    }
};

const CPP: Project = {
    const FILTER: Module = module!("filter", Some(Filter), "cpp/": "filter.hpp", "filter_test.cpp");
    const SOURCE: Module = module!("source", Some(Source), "cpp/": "source.hpp", "source_test.cpp");
    const DETECTOR: Module = module!("detector", Some(Detector), "cpp/": "detector.hpp", "detector_test.cpp");
    Project {
        modules: &[&FILTER, &SOURCE, &DETECTOR],
        order: &[
            (&SOURCE, "properties = { rate = 48e3, duration_s = 1.0 }\n"),
            (&FILTER, ""),
            (&DETECTOR, ""),
        ],
        folder: "",
        is_one_program: true,
        exec: |_, _| "\"build/components\"".into(),
        build: cmake_files,
        steps: &[CMAKE, "cmake --build build", "ctest --test-dir build"],
        package: Some(Package {
            file: "lib/cmake/stripline/stripline-config.cmake",
            step: |step, prefix| match step {
                CMAKE => format!("{CMAKE} -DCMAKE_PREFIX_PATH={prefix}"),
                _ => step.into(),
            },
        }),
    }
};

const C: Project = {
    const FILTER: Module = module!("filter", Some(Filter), "c/": "filter.c", "filter.h", "filter_test.c");
    const SOURCE: Module = module!("source", Some(Source), "c/": "source.c", "source.h", "source_test.c");
    Project {
        modules: &[&FILTER, &SOURCE],
        order: &[(&SOURCE, "properties = { rate = 48e3, duration_s = 1.0 }\n"), (&FILTER, "")],
        folder: "",
        is_one_program: true,
        exec: |_, _| "\"build/components\"".into(),
        build: make_files,
        steps: &["make", "make test"],
        package: Some(Package {
            file: "lib/pkgconfig/stripline.pc",
            step: |step, prefix| format!("PKG_CONFIG_PATH={prefix}/lib/pkgconfig {step}"),
        }),
    }
};

impl Language {
    pub(super) fn project(self) -> &'static Project {
        match self {
            Self::Rust => &RUST,
            Self::Python => &PYTHON,
            Self::Cpp => &CPP,
            Self::C => &C,
        }
    }

    /// Returns the name for users.
    pub(super) fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::Cpp => "C++",
            Self::C => "C",
        }
    }
}

/// Refuses `--stripline` for a language that takes only what is installed.
fn refuse_tree(arguments: &PlaceArguments, what: &str, install: &str) -> Result<(), Failure> {
    if arguments.stripline.is_none() {
        return Ok(());
    }
    let title = arguments.lang.title();
    let remedy = format!("install it from there ({install})");
    Err(Failure::usage(format!(
        "a project in {title} takes the installed {what}, not `--stripline DIR`: {remedy}"
    )))
}

/// Returns the files of a crate with these modules.
fn crate_files(arguments: &PlaceArguments, modules: &[&Module]) -> Result<Vec<File>, Failure> {
    let (name, dependency) = (&arguments.name, place::dependency(arguments.stripline.as_deref())?);
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.1.0\"\nedition = \"2024\"\nrust-version = \"1.88\"\n\
         publish = false\n\n[dependencies]\nserde = {{ version = \"1\", features = [\"derive\"] }}\n\
         stripline = {dependency}\n\n\
         # Signal processing in unoptimised code is slow.\n[profile.dev]\nopt-level = 1\n\n\
         [profile.dev.package.\"*\"]\nopt-level = 2\n\n\
         # The crate is not part of a workspace around it.\n[workspace]\n"
    );
    let mut names: Vec<&str> = modules.iter().map(|module| module.name).collect();
    names.sort_unstable();
    let declared: String = names.iter().map(|name| format!("mod {name};\n")).collect();
    let component = |name: &str| format!("{name}::{}{}", name[..1].to_uppercase(), &name[1..]);
    let main = if let [only] = names[..] {
        format!(
            "//! The component `{name}`, as an executable for waveforms.\n\n{declared}\n\
             fn main() -> std::process::ExitCode {{\n    stripline::component::main::<{}>()\n}}\n",
            component(only)
        )
    } else {
        let with = |name: &&str| format!("        .with::<{}>()", component(name));
        let registered: Vec<String> = names.iter().map(with).collect();
        format!(
            "//! The components of the waveform `{name}`, as one executable.\n\n{declared}\n\
             use stripline::component::{{Registry, main_of}};\n\n\
             fn main() -> std::process::ExitCode {{\n    let registry = Registry::new()\n{};\n    \
             main_of(&registry)\n}}\n",
            registered.join("\n")
        )
    };
    Ok(vec![
        ("Cargo.toml".into(), manifest),
        (".gitignore".into(), "/target\n".into()),
        ("src/main.rs".into(), main),
    ])
}

/// Returns the files of a CMake project with these modules.
fn cmake_files(arguments: &PlaceArguments, modules: &[&Module]) -> Result<Vec<File>, Failure> {
    let name = &arguments.name;
    let tree = place::source_tree(arguments.stripline.as_deref())?;
    let installed = "-DCMAKE_PREFIX_PATH=PREFIX, after packaging/cpp-install PREFIX";
    let (place, otherwise) = match &tree {
        Some(tree) => (
            format!("  add_subdirectory([==[{tree}/bindings/cpp]==] stripline)\n"),
            format!(
                "STATUS [==[No installed Stripline is found, so Cargo builds {tree}. For an installed one: \
                 {installed}]==]"
            ),
        ),
        None => {
            (String::new(), format!("FATAL_ERROR \"No installed Stripline is found. Give {installed}.\""))
        }
    };
    let found = if arguments.stripline.is_some() {
        format!("# Cargo builds the library.\n{}", place.trim_start())
    } else {
        format!(
            "find_package(stripline QUIET)\nif(NOT stripline_FOUND)\n  message({otherwise})\n{place}endif()\n"
        )
    };
    let tests: String = modules
        .iter()
        .map(|Module { name, .. }| {
            format!(
                "add_executable({name}_test {name}_test.cpp)\n\
                 target_link_libraries({name}_test PRIVATE stripline::stripline)\n\
                 add_test(NAME {name} COMMAND {name}_test)\n\
                 set_tests_properties({name} PROPERTIES TIMEOUT 90)\n"
            )
        })
        .collect();
    let lists = format!(
        "cmake_minimum_required(VERSION 3.16)\nproject({name} LANGUAGES CXX)\n\
         if(NOT CMAKE_BUILD_TYPE)\n  set(CMAKE_BUILD_TYPE Release)\nendif()\nenable_testing()\n\n{found}\n\
         add_executable(components main.cpp)\n\
         target_link_libraries(components PRIVATE stripline::stripline)\n\n{tests}"
    );
    let names: Vec<&str> = modules.iter().map(|module| module.name).collect();
    let included: String = names.iter().map(|name| format!("#include \"{name}.hpp\"\n")).collect();
    let main = format!(
        "// The components of `{name}`, as one program.\n{included}\n\
         int main(int argc, char **argv) {{ return stripline::component_main<{}>(argc, argv); }}\n",
        names.join(", ")
    );
    Ok(vec![
        ("CMakeLists.txt".into(), lists),
        (".gitignore".into(), "/build\n".into()),
        ("main.cpp".into(), main),
    ])
}

/// Returns the files of a project with a Makefile and these modules.
fn make_files(arguments: &PlaceArguments, modules: &[&Module]) -> Result<Vec<File>, Failure> {
    let name = &arguments.name;
    refuse_tree(arguments, "library", "DIR/packaging/c-install PREFIX")?;
    let tree = place::source_tree(None)?.unwrap_or("the source tree".into());
    let names: Vec<&str> = modules.iter().map(|module| module.name).collect();
    let joined = |start: &str, end: &str| {
        names.iter().map(|name| format!("{start}{name}{end}")).collect::<Vec<_>>().join(" ")
    };
    let run: String = names.iter().map(|name| format!("\tbuild/{name}_test\n")).collect();
    let rules: String = names
        .iter()
        .map(|name| {
            format!(
                "\nbuild/{name}_test: {name}_test.c {name}.c {name}.h | build\n\
                 \t$(CC) $(CFLAGS) -o $@ {name}_test.c {name}.c $(LDLIBS)\n"
            )
        })
        .collect();
    let makefile = format!(
        "ifneq ($(shell pkg-config --exists stripline && echo yes),yes)\n\
         $(error pkg-config finds no Stripline. In {tree}: packaging/c-install ~/.local. \
         Then: export PKG_CONFIG_PATH=~/.local/lib/pkgconfig)\nendif\n\
         CFLAGS += -std=c11 -O2 -Wall -Wextra $(shell pkg-config --cflags stripline)\n\
         LDLIBS += $(shell pkg-config --libs stripline) -Wl,-rpath,$(shell pkg-config --variable=libdir stripline)\n\n\
         build/components: main.c {} {} | build\n\
         \t$(CC) $(CFLAGS) -o $@ main.c {} $(LDLIBS)\n{rules}\n\
         build:\n\tmkdir build\n\n.PHONY: test\ntest: {}\n{run}",
        joined("", ".c"),
        joined("", ".h"),
        joined("", ".c"),
        joined("build/", "_test"),
    );
    let count = names.len();
    let included: String = names.iter().map(|name| format!("#include \"{name}.h\"\n")).collect();
    let made: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(i, name)| format!("{name}_new(&components[{i}], &error) > 0"))
        .collect();
    let main = format!(
        "/* The components of `{name}`, as one program. */\n#include <stdio.h>\n\n{included}\n\
         int main(int count, char **arguments) {{\n    stripline_error *error = NULL;\n    \
         stripline_component *components[{count}] = {{NULL}};\n    if ({}) {{\n        \
         fprintf(stderr, \"error: %s\\n\", stripline_error_message(error));\n        return 1;\n    }}\n    \
         return stripline_main(count, arguments, components, {count});\n}}\n",
        made.join(" || ")
    );
    Ok(vec![("Makefile".into(), makefile), (".gitignore".into(), "/build\n".into()), ("main.c".into(), main)])
}
