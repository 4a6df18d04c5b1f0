//! The binary interface, on which compiled programs rely. `packaging/abi-baseline` writes the
//! committed baseline for each release. Every item in it must stay.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::layouts::LayoutOf;
use crate::source::{Function, Source, snake};

/// The version of the symbols.
pub const SYMBOLS: &str = "STRIPLINE_0";

/// Returns the interface as lines: a kind, a name, and the facts on which programs rely.
pub fn text(source: &Source, layouts: &[LayoutOf]) -> String {
    let mut out =
        String::from("# What programs rely on. Only packaging/abi-baseline writes it, for a release.\n");
    for module in &source.modules {
        for function in &module.functions {
            _ = writeln!(out, "function {} {SYMBOLS} {}", function.name, types(function));
        }
        for callback in &module.callbacks {
            _ = writeln!(out, "callback stripline_{} {}", snake(&callback.name), types(callback));
        }
        for constant in &module.constants {
            _ = writeln!(out, "constant STRIPLINE_{} {}", constant.name, constant.value);
        }
        for it in &module.enums {
            for (variant, _, number) in &it.variants {
                _ = writeln!(out, "value {}::{variant} {number}", it.name);
            }
        }
        for structure in &module.structures {
            let layout = layouts.iter().find(|layout| layout.name == structure.name);
            let layout = layout.unwrap_or_else(|| panic!("`{}` has no layout", structure.name));
            let name = snake(&structure.name);
            _ = writeln!(out, "structure stripline_{name} {} aligned to {}", layout.size, layout.align);
            for (member, (_, offset)) in structure.members.iter().zip(&layout.members) {
                _ = writeln!(out, "member stripline_{name}.{} {offset} {}", member.name, member.of);
            }
        }
    }
    out
}

fn types(function: &Function) -> String {
    let of: Vec<&str> = function.parameters.iter().map(|parameter| parameter.of.as_str()).collect();
    format!("{}({})", function.returns, of.join(", "))
}

/// Returns, in words, the items of the baseline that a program no longer finds.
pub fn broken(baseline: &str, now: &str) -> Vec<String> {
    let now: BTreeMap<_, _> = lines(now).collect();
    let mut broken = Vec::new();
    for ((kind, name), before) in lines(baseline) {
        match now.get(&(kind, name)) {
            None => broken.push(format!("the {kind} `{name}` was removed")),
            Some(after)
                if *after == before || kind == "structure" && has_grown(name, before, after, &now) => {}
            Some(after) => broken.push(format!("the {kind} `{name}` was `{before}` and is `{after}`")),
        }
    }
    broken
}

/// Returns the kind and name of each line, and the rest.
fn lines(text: &str) -> impl Iterator<Item = ((&str, &str), &str)> {
    text.lines().filter(|line| !line.starts_with('#')).map(|line| {
        let mut parts = line.splitn(3, ' ');
        let mut next = || parts.next().unwrap_or_else(|| panic!("a line of the baseline is cut off: {line}"));
        ((next(), next()), next())
    })
}

/// Returns whether a structure has only grown at the end. A structure with `size` may grow.
fn has_grown(name: &str, before: &str, after: &str, now: &BTreeMap<(&str, &str), &str>) -> bool {
    let parse = |text: &str| -> Option<(usize, String)> {
        let (size, align) = text.split_once(' ')?;
        Some((size.parse().ok()?, align.into()))
    };
    let (Some((old, old_align)), Some((new, new_align))) = (parse(before), parse(after)) else {
        return false;
    };
    let size = format!("{name}.size");
    now.contains_key(&("member", size.as_str())) && new > old && new_align == old_align
}

#[test]
fn what_breaks_a_program_is_named() {
    let before = "# a comment\n\
                  function stripline_a STRIPLINE_0 void(int32_t)\n\
                  value Status::Full 2\n\
                  constant STRIPLINE_FOREVER -1\n\
                  structure stripline_plain 16 aligned to 8\n\
                  member stripline_plain.data 0 const char *\n\
                  structure stripline_sized 16 aligned to 8\n\
                  member stripline_sized.size 0 size_t\n\
                  member stripline_sized.hold 8 uint32_t\n";
    assert!(broken(before, before).is_empty());
    let more = format!("{before}function stripline_b STRIPLINE_0 void()\nvalue Status::New 99\n");
    assert!(broken(before, &more).is_empty(), "an addition breaks nothing");
    let grown = before.replace("sized 16", "sized 24") + "member stripline_sized.more 16 uint64_t\n";
    assert!(broken(before, &grown).is_empty(), "a structure with `size` grows at its end");
    for (old, new, words) in [
        ("function stripline_a STRIPLINE_0 void(int32_t)\n", "", "function `stripline_a` was removed"),
        ("void(int32_t)", "void(int64_t)", "`stripline_a` was `STRIPLINE_0 void(int32_t)`"),
        ("STRIPLINE_0", "STRIPLINE_1", "is `STRIPLINE_1 void(int32_t)`"),
        ("Full 2", "Full 3", "the value `Status::Full` was `2` and is `3`"),
        ("FOREVER -1", "FOREVER 0", "the constant `STRIPLINE_FOREVER`"),
        ("plain 16", "plain 24", "the structure `stripline_plain` was `16 aligned to 8`"),
        ("sized 16", "sized 8", "the structure `stripline_sized`"),
        ("sized 16 aligned to 8", "sized 32 aligned to 16", "the structure `stripline_sized`"),
        ("hold 8", "hold 12", "the member `stripline_sized.hold` was `8 uint32_t`"),
        ("uint32_t\n", "uint64_t\n", "is `8 uint64_t`"),
        ("member stripline_sized.hold 8 uint32_t\n", "", "member `stripline_sized.hold` was removed"),
    ] {
        let after = before.replace(old, new);
        let found = broken(before, &after);
        assert!(found.len() == 1 && found[0].contains(words), "{old} -> {new}: {found:?}");
    }
}
