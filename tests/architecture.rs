//! Checks the direction of imports between modules.
//!
//! Other tools check the other rules. Lints restrict `unsafe` and clocks (`unsafe_code` in
//! `Cargo.toml`, `disallowed-methods` in `clippy.toml`). Package boundaries restrict the imports of
//! the viewer. This test checks the imports within the packages `ibnet` and
//! `ibnet-record`. It reads `use` lines and paths that start with `crate::`, `super::` or
//! `ibnet_record::`, whose modules are `record` here.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A module, and the modules that it and its submodules may import in addition to their own
/// top-level module.
struct Rule {
    module: &'static str,
    may_import: &'static [&'static str],
    /// Modules that must not be imported, even within the same top-level module.
    must_not_import: &'static [&'static str],
}

const fn rule(
    module: &'static str,
    may_import: &'static [&'static str],
    must_not_import: &'static [&'static str],
) -> Rule {
    Rule {
        module,
        may_import,
        must_not_import,
    }
}

/// Data flows from the net file to the plan, the sweep, the records and the outputs; imports must
/// not go in the opposite direction. The rule of the longest matching module applies.
const RULES: &[Rule] = &[
    rule("record::count", &[], &[]),
    rule("record::words", &[], &[]),
    rule("record::types", &[], &[]),
    rule("record::status", &[], &[]),
    rule("record::vocabulary", &[], &[]),
    rule("record::limits", &[], &[]),
    rule("record::suggest", &[], &[]),
    rule("record::hostlist", &["record::types"], &[]),
    rule("record::attributes", &["record::types"], &[]),
    rule("record::registers", &["record::attributes"], &[]),
    rule("record::text", &["record::types"], &[]),
    rule("record::json", &["record::text"], &[]),
    rule("record::interval", &[], &[]),
    rule("record::value", &["record::types"], &[]),
    rule("record::fields", &["record::types"], &[]),
    rule("record::port", &["record::types", "record::value"], &[]),
    rule(
        "record::reader",
        &[
            "record::Role",
            "record::fields",
            "record::interval",
            "record::physical",
            "record::port",
            "record::status",
            "record::types",
        ],
        &[],
    ),
    // Strict reading, and the tables and columns that are made from the fields.
    rule("record", &["record"], &[]),
    rule("time", &[], &[]),
    rule("http_client", &[], &[]),
    rule("http_limits", &[], &[]),
    rule(
        "topology",
        &[
            "record::count",
            "record::limits",
            "record::rail",
            "record::types",
        ],
        &[],
    ),
    rule(
        "cabling",
        &[
            "record::count",
            "record::hostlist",
            "record::rail",
            "record::registers",
            "record::text",
            "record::types",
            "topology",
        ],
        &[],
    ),
    rule(
        "scheduler",
        &[
            "record::count",
            "record::hostlist",
            "record::rail",
            "record::types",
            "topology",
        ],
        &[],
    ),
    rule("drawing", &["record::count", "record::types"], &[]),
    rule(
        "assignments",
        &["record::hostlist", "record::limits", "record::types"],
        &[],
    ),
    rule(
        "cost",
        &[
            "mad::pma",
            "record::attributes",
            "record::types",
            "sweep::cadence",
        ],
        &[],
    ),
    rule(
        "partition",
        &[
            "assignments",
            "cabling::groups",
            "cost",
            "drawing",
            "record::count",
            "record::hostlist",
            "record::limits",
            "record::reader",
            "record::text",
            "record::types",
            "topology",
        ],
        &[],
    ),
    rule(
        "mad",
        &[
            "record::attributes",
            "record::registers",
            "record::types",
            "time",
        ],
        &["mad::transport"],
    ),
    rule(
        "mad::libibmad",
        &["record::attributes", "record::types"],
        &["mad::transport::sim"],
    ),
    rule("mad::transport", &["record::types", "time"], &[]),
    rule(
        "mad::transport::sim",
        &[
            "record::attributes",
            "record::registers",
            "record::types",
            "time",
            "topology",
        ],
        &["mad::transport::umad"],
    ),
    rule(
        "sweep",
        &[
            "mad",
            "record::Status",
            "record::attributes",
            "record::types",
            "time",
        ],
        &["mad::transport", "sweep::driver"],
    ),
    rule("sweep::port_record", &["record"], &["mad", "sweep::driver"]),
    rule(
        "sweep::physical_record",
        &["mad", "record"],
        &["sweep::driver"],
    ),
    rule(
        "sweep::plan",
        &["assignments", "record"],
        &["sweep::driver"],
    ),
    rule(
        "sweep::engine",
        &[
            "mad",
            "record::Status",
            "record::attributes",
            "record::physical",
            "record::registers",
            "record::types",
            "time",
        ],
        &["mad::transport", "sweep::driver", "sweep::virtual_sweep"],
    ),
    rule(
        "sweep::engine::tests",
        &[
            "mad",
            "record::attributes",
            "record::physical",
            "record::registers",
            "record::types",
            "time",
            "topology",
        ],
        &[],
    ),
    rule(
        "sweep::query",
        &["mad", "record", "time"],
        &["mad::transport", "sweep::driver", "sweep::engine"],
    ),
    rule(
        "sweep::virtual_sweep",
        &["mad", "time", "topology"],
        &["mad::transport::umad"],
    ),
    rule(
        "sweep::driver",
        &["mad", "output", "record", "time"],
        &["mad::transport::sim", "mad::transport::umad"],
    ),
    rule(
        "verify",
        &[
            "mad",
            "record::attributes",
            "record::registers",
            "record::types",
            "sweep::driver",
            "sweep::query",
            "time",
        ],
        &["mad::transport::sim", "mad::transport::umad"],
    ),
    rule(
        "discovery",
        &[
            "mad",
            "record::types",
            "sweep::smp_limit",
            "sweep::window",
            "time",
            "topology",
        ],
        &["mad::transport"],
    ),
    rule(
        "discovery::run",
        &["mad", "sweep::driver"],
        &["mad::transport::sim", "mad::transport::umad"],
    ),
    rule(
        "discovery::source",
        &["mad::transport", "record::types", "sweep::driver"],
        &["mad::transport::sim"],
    ),
    rule("output", &["record"], &[]),
    rule(
        "distribution",
        &["assignments", "output", "record::limits", "record::types"],
        &[],
    ),
    rule(
        "metrics",
        &["http_limits", "mad::pma", "record", "sweep"],
        &[],
    ),
    rule(
        "config",
        &[
            "distribution",
            "metrics",
            "output",
            "record::attributes",
            "record::limits",
            "record::suggest",
            "record::types",
            "sweep::cadence",
            "sweep::clearing",
            "sweep::engine",
        ],
        &[],
    ),
    // The simulated fabric of the configuration.
    rule(
        "config::simulated",
        &[
            "mad::transport::sim",
            "record::physical",
            "record::words",
            "time",
            "topology",
        ],
        &[],
    ),
    rule("cli", &["record::limits", "record::types"], &[]),
];

#[test]
fn imports_follow_the_rules() {
    let violations: Vec<String> = [sources("src"), sources("record/src")]
        .iter()
        .flatten()
        .flat_map(|(path, code)| violations(path, code))
        .collect();
    assert!(violations.is_empty(), "{}", violations.join("\n"));
}

#[test]
fn no_files_import_each_other_in_a_cycle() {
    for root in [
        "src",
        "record/src",
        "analysis/src",
        "store/src",
        "view/src",
        "hub/src",
        "truth/src",
    ] {
        let cycles = cycles(&sources(root), root);
        assert!(cycles.is_empty(), "cycles of imports in {root}: {cycles:?}");
    }
}

#[test]
fn packages_depend_on_each_other_in_one_direction() {
    // Each package may use the packages before it.
    let packages = [
        ("record", "ibnet-record"),
        ("store", "ibnet-store"),
        ("analysis", "ibnet-analysis"),
        ("view", "ibnet-view"),
    ];
    for (index, (folder, name)) in packages.iter().enumerate() {
        let manifest = fs::read_to_string(
            Path::new(env!("CARGO_MANIFEST_DIR"))
                .join(folder)
                .join("Cargo.toml"),
        )
        .unwrap();
        assert!(manifest.contains(&format!("name = \"{name}\"")));
        for (_, later) in &packages[index + 1..] {
            assert!(
                !manifest.contains(&format!("\n{later} =")),
                "{name} must not use {later}"
            );
        }
    }
}

/// A program that reads records compiles no sweeper, no server, no TLS and no parser of arguments.
#[test]
fn packages_that_read_records_need_few_crates() {
    let heavy = ["ibnet", "tokio", "hyper", "rustls", "ring", "clap"];
    let found = |package| {
        let crates = crates_of(package);
        heavy.map(|name| crates.iter().any(|krate| krate == name))
    };
    for package in ["ibnet-record", "ibnet-store", "ibnet-analysis"] {
        assert_eq!(
            found(package),
            [false; 6],
            "{package} needs one of {heavy:?}"
        );
    }
    assert_eq!(found("ibnet"), [true; 6], "the sweeper needs them");
}

/// A model that shares code with the search for roots would agree with it by construction.
#[test]
fn the_truth_about_congestion_shares_no_code_with_its_judge() {
    let crates = crates_of("ibnet-truth");
    assert!(crates.iter().any(|krate| krate == "ibnet_record"));
    for judge in ["ibnet", "ibnet_analysis", "ibnet_view"] {
        assert!(!crates.iter().any(|krate| krate == judge), "{judge}");
    }
}

/// Returns the names of the crates that a package needs, with its own. Those of tests do not count.
fn crates_of(package: &str) -> Vec<String> {
    let output = Command::new(env!("CARGO"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args([
            "tree",
            "--offline",
            "--locked",
            "--all-features",
            "-e",
            "normal",
        ])
        .args(["--prefix", "none", "--format", "{lib}", "-p", package])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    text.lines().map(str::to_owned).collect()
}

#[test]
fn cycles_are_detected() {
    let file = |path: &str, code: &str| (path.to_owned(), code.to_owned());
    let files = [
        file("src/a/mod.rs", "mod b; mod c; pub use self::b::B;"),
        file("src/a/b.rs", "use super::c::C; pub struct B;"),
        file(
            "src/a/c.rs",
            "use crate::a::b::B; #[cfg(test)] mod tests { use super::super::d::D; }",
        ),
        file("src/a/d.rs", "use super::c::C;"),
    ];
    assert_eq!(cycles(&files, "src"), [["a::b", "a::c"]]);
    assert_eq!(cycles(&files[..2], "src"), Vec::<Vec<String>>::new());
}

#[test]
fn every_rule_names_existing_modules() {
    let modules: Vec<String> = [sources("src"), sources("record/src")]
        .iter()
        .flatten()
        .map(|(path, _)| module_of(path))
        .collect();
    for Rule {
        module,
        may_import,
        must_not_import,
    } in RULES
    {
        for name in [module]
            .into_iter()
            .chain(*may_import)
            .chain(*must_not_import)
        {
            // `ibnet-record` has the types that most modules use at its root.
            let is_item = name
                .strip_prefix("record::")
                .is_some_and(|item| item.starts_with(char::is_uppercase));
            assert!(
                is_item || modules.iter().any(|known| is_within(known, name)),
                "module {name} does not exist; correct RULES"
            );
        }
    }
}

#[test]
fn forbidden_imports_are_detected() {
    for (path, code) in [
        (
            "src/sweep/engine/mod.rs",
            "use crate::mad::transport::sim::SimFabric;",
        ),
        (
            "src/sweep/engine/device.rs",
            "use crate::mad::{header::MadStatus, transport::{Transport, sim}};",
        ),
        (
            "src/sweep/engine/device.rs",
            "fn f() -> super::super::driver::DriverSettings { g() }",
        ),
        (
            "src/mad/transport/sim/mod.rs",
            "use crate::partition::Plan;",
        ),
        ("src/mad/header.rs", "use super::transport::Transport;"),
        (
            "src/mad/header.rs",
            "mod tests { use super::super::transport::sim; }",
        ),
        ("src/binary.rs", "use crate::mad::Mad;"),
        (
            "src/partition/mod.rs",
            "use crate::{\n    topology::Fabric,\n    mad::Mad,\n};",
        ),
        ("src/assignments/mod.rs", "use crate::partition::Plan;"),
        ("src/assignments/mod.rs", "use ibnet_record::reader::Head;"),
        ("record/src/types.rs", "use crate::reader::Head;"),
        ("record/src/types.rs", "use super::hostlist::HostList;"),
        ("src/unknown.rs", "use ibnet_record::types::Guid;"),
    ] {
        assert!(!violations(path, code).is_empty(), "{path}: {code}");
    }
    for (path, code) in [
        (
            "src/sweep/engine/device.rs",
            "use super::inflight::Inflight;\nuse crate::mad::pma::{Bits, Query};",
        ),
        (
            "record/src/types.rs",
            "//! See [`crate::reader`].\nmod tests { use super::*; }",
        ),
        (
            "src/bin/ibnet-sweep/main.rs",
            "use ibnet::sweep::driver::Driver;",
        ),
    ] {
        assert_eq!(
            violations(path, code),
            Vec::<String>::new(),
            "{path}: {code}"
        );
    }
}

/// Returns the imports of a file that its rule forbids.
fn violations(path: &str, code: &str) -> Vec<String> {
    let module = module_of(path);
    if ["", "record"].contains(&&*module) || is_within(&module, "bin") {
        return Vec::new();
    }
    let Some(rule) = RULES
        .iter()
        .filter(|rule| is_within(&module, rule.module))
        .max_by_key(|rule| rule.module.len())
    else {
        return vec![format!(
            "{path}: module {module} has no rule; add one to RULES"
        )];
    };
    // Each module at the root of `ibnet-record` has its own rule.
    let depth = if is_within(&module, "record") { 2 } else { 1 };
    let top = module
        .split("::")
        .take(depth)
        .collect::<Vec<_>>()
        .join("::");
    // A path that begins with an item, as `super::Item` in an inline module does, is no import.
    let is_module = |import: &str| {
        RULES
            .iter()
            .any(|rule| import.split("::").next() == rule.module.split("::").next())
    };
    let is_allowed = |import: &str| {
        let own = is_within(import, &top)
            || rule
                .may_import
                .iter()
                .any(|allowed| is_within(import, allowed));
        own && !rule
            .must_not_import
            .iter()
            .any(|forbidden| is_within(import, forbidden))
    };
    let imports = imports(&module, code);
    let forbidden = imports
        .iter()
        .filter(|import| is_module(import) && !is_allowed(import));
    forbidden
        .map(|import| format!("{path}: {module} must not import {import}"))
        .collect()
}

/// Returns the groups of files that import each other, directly or by way of others of the group.
/// Tests do not count, and neither does a module that declares its submodules or imports from them.
fn cycles(files: &[(String, String)], root: &str) -> Vec<Vec<String>> {
    let module = |path: &str| module_of(&path.replacen(root, "src", 1));
    let names: Vec<String> = files.iter().map(|(path, _)| module(path)).collect();
    let edges: Vec<Vec<usize>> = files
        .iter()
        .zip(&names)
        .map(|((_, code), name)| {
            let code = code.split("#[cfg(test)]").next().unwrap();
            let target = |import: &String| {
                let known = (0..names.len())
                    .filter(|place| !names[*place].is_empty() && is_within(import, &names[*place]));
                known.max_by_key(|place| names[*place].len())
            };
            let targets = imports(name, code)
                .iter()
                .filter_map(target)
                .collect::<Vec<_>>();
            targets
                .into_iter()
                .filter(|place| {
                    !is_within(&names[*place], name) && !is_within(name, &names[*place])
                })
                .collect()
        })
        .collect();
    // `reached[a]` has every file that `a` imports directly or indirectly.
    let reached: Vec<Vec<bool>> = (0..files.len())
        .map(|start| {
            let (mut seen, mut open) = (vec![false; files.len()], vec![start]);
            while let Some(place) = open.pop() {
                for next in &edges[place] {
                    if !std::mem::replace(&mut seen[*next], true) {
                        open.push(*next);
                    }
                }
            }
            seen
        })
        .collect();
    let mut groups: Vec<Vec<String>> = (0..files.len())
        .filter(|start| reached[*start][*start])
        .map(|start| {
            let group =
                (0..files.len()).filter(|other| reached[start][*other] && reached[*other][start]);
            let mut group: Vec<String> = group.map(|place| names[place].clone()).collect();
            group.sort();
            group
        })
        .collect();
    groups.sort();
    groups.dedup();
    groups
}

fn is_within(name: &str, module: &str) -> bool {
    name.strip_prefix(module)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns the paths from the crate's root of all imports in the code. Comments are ignored.
fn imports(module: &str, code: &str) -> Vec<String> {
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let mut found = Vec::new();
    for (at, prefix) in code
        .match_indices("crate::")
        .chain(code.match_indices("super::"))
        .chain(code.match_indices("ibnet_record::"))
    {
        let before = code[..at].chars().next_back();
        // A continuation such as `super::super::` is handled at its first segment.
        if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
            continue;
        }
        let inline =
            if code[..at].contains("#[cfg(test)]\nmod ") || code[..at].contains("mod tests {") {
                vec!["tests"]
            } else {
                Vec::new()
            };
        let mut base: Vec<&str> = match prefix {
            "super::" => module.split("::").chain(inline).collect(),
            "crate::" if !is_within(module, "record") => Vec::new(),
            _ => vec!["record"],
        };
        let mut rest = &code[at..];
        while let Some(after) = rest.strip_prefix("super::") {
            base.pop();
            rest = after;
        }
        expand(
            rest.strip_prefix(prefix).unwrap_or(rest),
            &base.join("::"),
            &mut found,
        );
    }
    found
}

/// Expands a path, with or without a tree of braces, to the paths of its leaves.
fn expand<'a>(text: &'a str, base: &str, found: &mut Vec<String>) -> &'a str {
    let end = text
        .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == ':'))
        .unwrap_or(text.len());
    let (path, mut rest) = text.split_at(end);
    let joined = [base, path.trim_matches(':')]
        .into_iter()
        .filter(|part| !part.is_empty())
        .collect::<Vec<_>>()
        .join("::");
    if !((path.is_empty() || path.ends_with("::")) && rest.starts_with('{')) {
        found.push(joined);
        return rest;
    }
    rest = &rest[1..];
    loop {
        rest = expand(rest.trim_start(), &joined, found).trim_start();
        match rest.strip_prefix(',') {
            Some(after) if after.trim_start().starts_with('}') => return &after.trim_start()[1..],
            Some(after) => rest = after,
            None => return rest.strip_prefix('}').unwrap_or(rest),
        }
    }
}

/// Returns the module path of a source file: `src/sweep/engine/mod.rs` is `sweep::engine`, and
/// `record/src/types.rs` is `record::types`.
fn module_of(path: &str) -> String {
    let path = path.replacen("record/src/lib.rs", "record", 1);
    let path = path.replacen("record/src/", "record/", 1);
    let path = path
        .trim_start_matches("src/")
        .trim_end_matches(".rs")
        .trim_end_matches("/mod");
    if path == "lib" {
        String::new()
    } else {
        path.replace('/', "::")
    }
}

/// Returns path and text of all Rust files below a folder of the repository.
fn sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders = vec![root.join(folder)];
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                files.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(!files.is_empty(), "no sources in {folder}");
    files
}
