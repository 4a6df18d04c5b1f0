//! Writes the header and the version script.

use std::fmt::Write;

use crate::source::{Enumeration, Function, Module, Parameter, Source, snake};

/// The widest line of a declaration.
const COLUMNS: usize = 100;

/// Returns the text of the header.
pub fn header(source: &Source) -> String {
    let mut out = String::from(
        "/* Stripline for C: low-loss links between radio components.\n \
         *\n \
         * Made of the source of the crate stripline-c by its tests: change it there.\n",
    );
    // The first paragraphs of the crate's documentation are for Rust readers.
    let rules = source.docs.iter().position(|line| line.starts_with("- ")).unwrap_or(0);
    out += " *\n * These rules hold for all functions:\n *\n";
    source.docs[rules..].iter().for_each(|line| comment_line(&mut out, "", line));
    out += " */\n#ifndef STRIPLINE_H\n#define STRIPLINE_H\n\n#include <stddef.h>\n#include <stdint.h>\n\n\
            #ifdef __cplusplus\nextern \"C\" {\n#endif\n";
    source.modules.iter().for_each(|module| section(&mut out, module));
    out += "\n#ifdef __cplusplus\n}\n#endif\n\n#endif\n";
    out
}

/// Returns the linker's version script: the exported functions, and nothing else.
pub fn version_script(source: &Source) -> String {
    let mut out = String::from("STRIPLINE_0 {\n    global:\n");
    for function in source.modules.iter().flat_map(|module| &module.functions) {
        _ = writeln!(out, "        {};", function.name);
    }
    out += "    local:\n        *;\n};\n";
    out
}

fn section(out: &mut String, module: &Module) {
    _ = writeln!(out, "\n/* {:-<92} */", format!("{} ", module.docs[0].trim_end_matches('.')));
    for constant in &module.constants {
        comment(out, "", &constant.docs);
        let cast = if constant.value.starts_with('-') {
            format!("(({}){})", constant.of, constant.value)
        } else {
            constant.value.clone()
        };
        _ = writeln!(out, "#define STRIPLINE_{} {cast}", constant.name);
    }
    for handle in &module.handles {
        comment(out, "", &handle.docs);
        let name = c_name(&handle.name);
        _ = writeln!(out, "typedef struct {name} {name};");
    }
    module.enums.iter().for_each(|it| enumeration(out, it));
    // Callbacks come before the structures that have them as members.
    for callback in &module.callbacks {
        comment(out, "", &callback.docs);
        let head = format!("typedef {} (*{})(", callback.returns, c_name(&callback.name));
        declaration(out, &head, callback);
    }
    for structure in &module.structures {
        comment(out, "", &structure.docs);
        let name = c_name(&structure.name);
        _ = writeln!(out, "typedef struct {name} {{");
        for member in &structure.members {
            comment_within(out, &member.docs);
            _ = writeln!(out, "    {};", parameter(member));
        }
        _ = writeln!(out, "}} {name};");
    }
    for function in &module.functions {
        comment(out, "", &function.docs);
        let space = if function.returns.ends_with('*') { "" } else { " " };
        let head = format!("{}{space}{}(", function.returns, function.name);
        declaration(out, &head, function);
    }
}

fn enumeration(out: &mut String, it: &Enumeration) {
    comment(out, "", &it.docs);
    let name = c_name(&it.name);
    // Functions return a status, so its size must not depend on the compiler.
    let is_returned = it.of == "i32";
    let prefix = if is_returned { "stripline".into() } else { name.clone() };
    _ = writeln!(out, "enum {name}{} {{", if is_returned { "_number" } else { "" });
    for (variant, docs, number) in &it.variants {
        comment_within(out, docs);
        _ = writeln!(out, "    {}_{} = {number},", prefix.to_uppercase(), snake(variant).to_uppercase());
    }
    // A comma after the last enumerator needs C++11, which all of these compilers support.
    out.push_str("};\n");
    if is_returned {
        _ = writeln!(out, "typedef int32_t {name};");
    }
}

/// Writes a function's declaration. If it is wide, each parameter is on a line of its own.
fn declaration(out: &mut String, head: &str, function: &Function) {
    let parameters: Vec<String> = function.parameters.iter().map(parameter).collect();
    let parameters = if parameters.is_empty() { vec!["void".into()] } else { parameters };
    let line = format!("{head}{});", parameters.join(", "));
    if line.len() <= COLUMNS {
        _ = writeln!(out, "{line}");
    } else {
        _ = writeln!(out, "{head}\n    {});", parameters.join(",\n    "));
    }
}

fn parameter(Parameter { name, of, .. }: &Parameter) -> String {
    let space = if of.ends_with('*') { "" } else { " " };
    format!("{of}{space}{name}")
}

fn c_name(name: &str) -> String {
    format!("stripline_{}", snake(name))
}

fn comment(out: &mut String, indent: &str, docs: &[String]) {
    if let [only] = docs {
        _ = writeln!(out, "\n{indent}/* {only} */");
        return;
    }
    for (index, line) in docs.iter().enumerate() {
        if index == 0 {
            _ = writeln!(out, "\n{indent}/* {line}");
        } else {
            comment_line(out, indent, line);
        }
    }
    _ = writeln!(out, "{indent} */");
}

fn comment_within(out: &mut String, docs: &[String]) {
    let mut text = String::new();
    comment(&mut text, "    ", docs);
    out.push_str(text.trim_start_matches('\n'));
}

fn comment_line(out: &mut String, indent: &str, line: &str) {
    _ = writeln!(out, "{}", format!("{indent} * {line}").trim_end());
}
