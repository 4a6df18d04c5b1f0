//! The circles: few files of one layer of a crate import each other, directly or by way of others.
//!
//! An import of an item that a module exports again counts as an import of the file with the item.

use std::collections::{BTreeMap, BTreeSet};

use crate::layers::{code, expand, module_of, paths};
use crate::tree;

/// The most files of a circle.
const FILES_MAX: usize = 4;

#[test]
fn circles_of_files_are_small() {
    let (all, mut found) = (tree::files(".rs"), Vec::new());
    for name in tree::folders("crates") {
        let source = format!("crates/{name}/src/");
        let files = all.iter().filter_map(|path| Some((path.strip_prefix(&source)?.to_string(), path)));
        let texts = files.map(|(file, path)| (file, tree::read(path))).collect();
        let circles = circles(&texts).into_iter();
        found.extend(circles.map(|circle| format!("{} files of {source}\n{circle}", circle.lines().count())));
    }
    assert!(
        found.is_empty(),
        "more than {FILES_MAX} files of a layer import each other in a circle; move an item into a file \
         that all of them may import:\n{}",
        found.join("\n")
    );
}

#[test]
fn a_circle_is_found_through_exports() {
    let files = [
        ("lib.rs", "mod a;\npub use a::A;\n"),
        (
            "a/mod.rs",
            "pub use one::A;\npub(super) use self::two::Two;\npub use five::{\n    B,\n    Five,\n};\n",
        ),
        ("a/one.rs", "use super::Two;\n#[cfg(test)]\nmod tests {\n    use super::super::three::no;\n}\n"),
        ("a/two/mod.rs", "pub mod four;\n#[cfg(test)]\nmod no;\nfn f() {\n    four::make();\n}\n"),
        ("a/two/no.rs", "use crate::a::five::no;\n"),
        (
            "a/two/four.rs",
            "pub(in crate::a::one) use super::super::six;\nuse crate::a::{three::{self, f}};\n",
        ),
        ("a/three.rs", "// crate::a::one\nfn f(_: super::Five) {}\n"),
        ("a/five.rs", "use crate::A;\n"),
        ("b/mod.rs", "use crate::a::five::Five;\n"),
    ];
    let mut texts: BTreeMap<_, _> = files.map(|(file, text)| (file.to_string(), text.to_string())).into();
    let expected = "    a/five.rs imports a/one.rs (A)\n    \
                    a/one.rs imports a/two/mod.rs (Two)\n    \
                    a/three.rs imports a/five.rs (Five)\n    \
                    a/two/mod.rs imports a/two/four.rs (make)\n    \
                    a/two/four.rs imports a/three.rs (f)";
    assert_eq!(circles(&texts), [expected.to_string()].into());
    texts.insert("a/five.rs".into(), "use crate::b::B;\n".into());
    assert!(circles(&texts).is_empty(), "the way back is through another layer");
}

/// A file of a crate, as a module.
struct Module {
    file: String,
    /// The paths of the imported items.
    imports: BTreeSet<String>,
    /// The exported items of other modules: the name and the path of each.
    exports: BTreeMap<String, String>,
}

/// The modules of a crate. The path of the root is empty.
struct Modules(BTreeMap<String, Module>);

/// For each module, the modules that it imports, with the names of the items.
type Imports<'a> = BTreeMap<&'a str, BTreeMap<&'a str, Vec<&'a str>>>;

/// Returns the circles of more than [`FILES_MAX`] files, with a line for each file.
fn circles(texts: &BTreeMap<String, String>) -> BTreeSet<String> {
    let modules = Modules::of(texts);
    let imports = modules.imports();
    let reached: BTreeMap<&str, _> =
        imports.keys().map(|start| (*start, reached_from(&imports, start))).collect();
    let mut circles = BTreeSet::new();
    for start in imports.keys() {
        let circle: Vec<_> = reached[start].iter().filter(|other| reached[**other].contains(start)).collect();
        if circle.len() <= FILES_MAX {
            continue;
        }
        let file = |path: &str| &modules.0[path].file;
        let lines = circle.iter().map(|from| {
            let imported = imports[**from].iter().filter(|(to, _)| circle.contains(to));
            let imported = imported.map(|(to, items)| format!("{} ({})", file(to), items.join(", ")));
            format!("    {} imports {}", file(from), imported.collect::<Vec<_>>().join(", "))
        });
        circles.insert(lines.collect::<Vec<_>>().join("\n"));
    }
    circles
}

/// Returns the modules that a module imports, directly or by way of others.
fn reached_from<'a>(imports: &Imports<'a>, start: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&str> = imports[start].keys().copied().collect();
    while let Some(module) = next.pop() {
        if reached.insert(module) {
            next.extend(imports[module].keys());
        }
    }
    reached
}

impl Modules {
    /// Reads the files of a crate, except the files that are only tests.
    fn of(texts: &BTreeMap<String, String>) -> Self {
        let path_of = |file: &str| match file {
            "lib.rs" | "main.rs" => Vec::new(),
            file => module_of(file),
        };
        let mut tests = BTreeSet::new();
        for (file, text) in texts {
            let lines = text.split("#[cfg(test)]\n").skip(1).filter_map(|rest| rest.lines().next());
            let names = lines.filter_map(declared);
            tests.extend(names.map(|name| [path_of(file), vec![name.to_string()]].concat()));
        }
        let modules = texts.iter().map(|(file, text)| (path_of(file), file, text));
        let modules = modules.filter(|(path, ..)| !tests.iter().any(|test| path.starts_with(test)));
        Self(modules.map(|(path, file, text)| (path.join("::"), Module::read(file, &path, text))).collect())
    }

    /// Returns the imports within each layer.
    fn imports(&self) -> Imports<'_> {
        let mut imports = Imports::new();
        for (path, module) in &self.0 {
            let imported = imports.entry(path).or_default();
            for item in &module.imports {
                let Some(other) = self.module_with(item, 0) else { continue };
                if other != path && self.layer_of(other) == self.layer_of(path) {
                    imported.entry(other).or_default().push(last(item));
                }
            }
        }
        imports
    }

    /// Returns the module that has the item at a path. A chain of exports is followed for a while.
    fn module_with(&self, item: &str, exports: usize) -> Option<&str> {
        let parts: Vec<&str> = item.split("::").collect();
        (0..=parts.len()).rev().find_map(|length| {
            let (path, module) = self.0.get_key_value(&parts[..length].join("::"))?;
            let export = parts.get(length).and_then(|name| module.exports.get(*name));
            match export.filter(|_| exports < 8) {
                Some(target) => {
                    let rest = [&[target.as_str()], &parts[length + 1..]].concat();
                    self.module_with(&rest.join("::"), exports + 1)
                }
                None => Some(path.as_str()),
            }
        })
    }

    /// Returns the folder of a module. The files beside the root are a layer, too.
    fn layer_of<'a>(&self, path: &'a str) -> &'a str {
        let first = path.split("::").next().unwrap();
        let is_folder = self.0.values().any(|module| module.file.split('/').next() == Some(first));
        if is_folder { first } else { "" }
    }
}

impl Module {
    fn read(file: &str, path: &[String], text: &str) -> Self {
        let own: String = path.iter().map(|part| format!("{part}::")).collect();
        let text = code(text);
        let (mut rest, mut exports) = (String::new(), BTreeMap::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(start) = exported(line) else {
                rest += &format!("{line}\n");
                continue;
            };
            let mut export = start.to_string();
            while !export.contains(';') {
                export += lines.next().unwrap_or(";");
            }
            let mut items = paths(&export, path);
            if items.is_empty() {
                expand(&own, export.trim_start_matches("self::"), &mut items);
            }
            exports.extend(items.into_iter().map(|item| (last(&item).to_string(), item)));
        }
        let mut imports = paths(&rest, path);
        for child in rest.lines().filter_map(declared) {
            for (at, _) in rest.match_indices(&format!("{child}::")) {
                if !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':') {
                    expand(&own, &rest[at..], &mut imports);
                }
            }
        }
        Self { file: file.into(), imports, exports }
    }
}

/// Returns the module that a line declares.
fn declared(line: &str) -> Option<&str> {
    Some(line.strip_suffix(';')?.split_once("mod ")?.1)
}

/// Returns the path in a line that begins an export.
fn exported(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub")?;
    let rest = rest.strip_prefix('(').map_or(rest, |rest| rest.split_once(')').map_or("", |parts| parts.1));
    rest.strip_prefix(" use ")
}

/// Returns the last part of a path.
fn last(path: &str) -> &str {
    path.rsplit("::").next().unwrap()
}
