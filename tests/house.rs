//! The rules of the house, kept by reading its source: imports run one way, `unsafe` and clocks have one place, no file outgrows a reader.
//!
//! What is checked is code: comments, texts and characters are taken out first, so a doc link is no import. `super::` and `self::` are
//! followed, and so are trees of braces. What a macro makes up is not seen.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

use std::fs;
use std::path::{Path, PathBuf};

/// What a room, and all rooms in it without a rule of their own, may import beside its own top room.
struct Rule {
    room: &'static str,
    may: &'static [&'static str],
    /// Also within its own top room.
    never: &'static [&'static str],
}

const fn rule(room: &'static str, may: &'static [&'static str], never: &'static [&'static str]) -> Rule {
    Rule { room, may, never }
}

/// One way: net file -> topology -> partition -> assignments -> sweep (engine + transport) -> records -> view.
const RULES: &[Rule] = &[
    rule("types", &[], &[]),
    rule("time", &[], &[]),
    rule("topology", &["types"], &[]),
    rule("drawing", &["types"], &[]),
    rule("partition", &["drawing", "topology", "types"], &[]),
    rule("assignments", &["partition", "topology", "types"], &[]),
    rule("mad", &["time", "types"], &["mad::transport"]),
    rule("mad::transport", &["time", "types"], &[]),
    rule("mad::transport::sim", &["time", "topology", "types"], &["mad::transport::umad"]),
    rule("sink", &[], &[]),
    rule("sweep", &["mad", "time", "types"], &["mad::transport", "sweep::driver"]),
    rule("sweep::plan", &["assignments", "types"], &["sweep::driver"]),
    rule("sweep::engine", &["mad", "time", "types"], &["mad::transport", "sweep::driver", "sweep::record", "sweep::virtual_sweep"]),
    rule("sweep::engine::tests", &["mad", "time", "topology", "types"], &["sweep::record"]),
    rule("sweep::query", &["mad", "time", "types"], &["mad::transport", "sweep::driver", "sweep::engine"]),
    rule("sweep::virtual_sweep", &["mad", "time", "topology"], &["mad::transport::umad"]),
    rule("sweep::driver", &["mad", "sink", "time", "types"], &["mad::transport::sim", "mad::transport::umad"]),
    rule("metrics", &["mad::pma", "sweep", "types"], &[]),
    rule("config", &["mad::pma", "metrics", "sink", "sweep::engine", "types"], &[]),
    rule("cli", &["types"], &[]),
    rule("view", &["drawing", "sweep::record", "types"], &[]),
    rule("view::input", &["cli", "types"], &[]),
    rule("view::replay", &["cli", "types"], &[]),
];

/// The only room that may say `unsafe`.
const UNSAFE: &str = "src/mad/transport/umad/";

/// Who may read clocks.
const CLOCKS: [&str; 2] = ["src/sweep/driver/clock.rs", "src/bin/"];

/// What runs in virtual time beside the library: no clock here either.
const VIRTUAL: [&str; 7] = [
    "tests/memory.rs",
    "tests/scenarios.rs",
    "tests/scenarios/runner.rs",
    "tests/scenarios/scenario.rs",
    "tests/rates.rs",
    "tests/scale.rs",
    "tests/scale/large.rs",
];

/// Lines of a file.
const MOST_LINES: usize = 600;

#[test]
fn imports_run_one_way() {
    assert_none(&all_files().iter().flat_map(imports).collect::<Vec<_>>());
}

#[test]
fn unsafe_code_has_one_room() {
    assert_none(&all_files().iter().flat_map(unsafe_code).collect::<Vec<_>>());
}

#[test]
fn clocks_are_read_in_one_place() {
    assert_none(&all_files().iter().flat_map(clocks).collect::<Vec<_>>());
}

#[test]
fn what_runs_in_virtual_time_reads_no_clock() {
    let read = |path: &str| file(path, &fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap());
    assert_none(&VIRTUAL.iter().map(|path| read(path)).flat_map(|file| clocks(&file)).collect::<Vec<_>>());
}

#[test]
fn no_file_outgrows_a_reader() {
    assert_none(&all_files().iter().filter_map(length).collect::<Vec<_>>());
}

#[test]
fn every_rule_has_its_room() {
    let modules: Vec<_> = all_files().iter().map(|file| module(&file.path).join("::")).collect();
    for Rule { room, may, never } in RULES {
        for name in [room].into_iter().chain(*may).chain(*never) {
            let inside = format!("{name}::");
            assert!(modules.iter().any(|module| module == name || module.starts_with(&inside)), "there is no {name}: mend the rules");
        }
    }
}

#[test]
fn an_import_against_an_arrow_is_seen() {
    for (path, code) in [
        ("src/sweep/engine/mod.rs", "use crate::mad::transport::sim::SimFabric;"),
        ("src/sweep/engine/state.rs", "use crate::mad::{header::MadStatus, transport::{Transport, sim}};"),
        ("src/sweep/engine/state.rs", "fn f() -> super::super::driver::Settings { todo!() }"),
        ("src/sweep/engine/mod.rs", "mod inner { use super::super::record::Start; }"),
        ("src/mad/pma/mod.rs", "fn f() { crate::sweep::stats::durations(); }"),
        ("src/mad/transport/sim/mod.rs", "use crate::partition::Plan;"),
        ("src/mad/header.rs", "use super::transport::Transport;"),
        ("src/mad/transport/sim/agent.rs", "#[cfg(test)] mod tests { use crate::sweep::engine::Engine; }"),
        ("src/partition/mod.rs", "use crate::{\n    topology::Fabric,\n    mad::Mad,\n};"),
        ("src/view/once.rs", "use super::super::sweep::counter::Reading;"),
        ("src/view/mod.rs", "use crate::sweep::{record::line::{self, Port}, engine};"),
        ("src/types.rs", "use crate::time::Instant;"),
        ("src/time.rs", "const X: &str = \"//\"; use crate::types::Lid;"),
        ("src/topology/mod.rs", "use crate::mad as wire;"),
        ("src/sweep/engine/mod.rs", "use crate::mad; fn f() { mad::transport::sim::f() }"),
        ("src/view/once.rs", "use super::super::*;"),
        ("src/sweep/query/mod.rs", "use super::driver::DeviceAsker;"),
    ] {
        assert!(!imports(&file(path, code)).is_empty(), "{path}: {code}");
    }
    assert_eq!(imports(&file("src/attic.rs", "")), ["src/attic.rs: no rule says what this room may import"]);
    assert_eq!(imports(&file("src/view/once.rs", "\nuse crate::sink;")), ["src/view/once.rs:2: view::once must not import sink"]);
}

#[test]
fn an_import_along_the_arrows_is_none_of_our_business() {
    for (path, code) in [
        ("src/sweep/engine/tests.rs", "use crate::mad::transport::sim::SimFabric; use super::*;"),
        ("src/sweep/engine/mod.rs", "use self::state::Port; use super::inflight::Past; use crate::mad::pma::{Group, Query};"),
        ("src/view/once.rs", "use super::summary::plain; use crate::sweep::record::line::Port; use std::fmt::{self, Display};"),
        ("src/view/mod.rs", "//! Not [`engine`](crate::sweep::engine).\n/* crate::mad /* nor */ crate::sink */ pub mod once;"),
        (
            "src/types.rs",
            "mod tests { use super::*; fn f<'a>(_: &'a str) { let _ = ('\\'', 'x', \"\\\" crate::mad\", r#\"crate::\"mad\"#); } }",
        ),
        ("src/bin/ibnet-sweep.rs", "use ibnet::sweep::driver::Driver; use ibnet::view;"),
    ] {
        assert_none(&imports(&file(path, code)));
    }
}

#[test]
fn unsafe_code_is_seen_elsewhere() {
    let code = "fn f() { unsafe { g() } }";
    assert_eq!(unsafe_code(&file("src/sink/mod.rs", code)).len(), 1);
    assert_eq!(unsafe_code(&file("src/mad/transport/sim/mod.rs", "unsafe impl Send for X {}")).len(), 1);
    assert_none(&unsafe_code(&file("src/mad/transport/umad/mod.rs", code)));
    assert_none(&unsafe_code(&file("src/lib.rs", "// unsafe { }\n#![deny(unsafe_code)] const X: &str = \"unsafe {\";")));
}

#[test]
fn a_clock_is_seen_elsewhere_by_whatever_name() {
    for code in ["let t = Instant::now();", "let t = std::time::SystemTime :: now ();", "use std::time::Instant as Y; let t = Y::now;"] {
        assert_eq!(clocks(&file("src/sweep/engine/mod.rs", code)).len(), 1, "{code}");
        assert_none(&clocks(&file("src/sweep/driver/clock.rs", code)));
        assert_none(&clocks(&file("src/bin/ibnet-sweep.rs", code)));
    }
    assert_none(&clocks(&file("src/time.rs", "//! There is no `Instant::now()` here.\nfn f(now: Instant) { self.now(); }")));
}

#[test]
fn a_long_file_is_seen() {
    assert_eq!(length(&file("src/a.rs", &"\n".repeat(MOST_LINES))), None);
    assert!(length(&file("src/a.rs", &"\n".repeat(MOST_LINES + 1))).is_some());
}

/// A source file, its path from the root of the repository.
struct File {
    path: String,
    text: String,
}

fn file(path: &str, text: &str) -> File {
    File { path: path.to_owned(), text: text.to_owned() }
}

fn all_files() -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    let mut folders = vec![root.join("src")];
    while let Some(folder) = folders.pop() {
        let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        for path in paths {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(file(path.strip_prefix(root).unwrap().to_str().unwrap(), &fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(files.iter().any(|file| file.path == "src/lib.rs"), "the source was not found");
    files
}

#[track_caller]
fn assert_none(offences: &[String]) {
    assert!(offences.is_empty(), "{}", offences.join("\n"));
}

fn length(file: &File) -> Option<String> {
    let lines = file.text.lines().count();
    (lines > MOST_LINES)
        .then(|| format!("{}: {lines} lines, more than {MOST_LINES}: split it, or move its tests to a file of their own", file.path))
}

fn unsafe_code(file: &File) -> Vec<String> {
    if file.path.starts_with(UNSAFE) {
        return Vec::new();
    }
    let tokens = tokens(&file.text);
    tokens.iter().filter(|token| token.text == "unsafe").map(|token| format!("{}:{}: unsafe code", file.path, token.line)).collect()
}

fn clocks(file: &File) -> Vec<String> {
    if CLOCKS.iter().any(|place| file.path.starts_with(place)) {
        return Vec::new();
    }
    let tokens = tokens(&file.text);
    let read = tokens.windows(2).filter(|pair| pair[0].text == "::" && pair[1].text == "now");
    read.map(|pair| format!("{}:{}: a clock is read", file.path, pair[1].line)).collect()
}

/// The imports of a file that no rule allows.
fn imports(file: &File) -> Vec<String> {
    let module = module(&file.path);
    if file.path.starts_with("src/bin/") || module.is_empty() {
        return Vec::new();
    }
    let Some(Rule { may, never, .. }) = rule_of(&module) else {
        return vec![format!("{}: no rule says what this room may import", file.path)];
    };
    let mut offences = Vec::new();
    for (line, path) in paths(&tokens(&file.text), &module) {
        // Whoever imports a house could go on to any of its rooms.
        let opens_forbidden =
            never.iter().any(|room| is_inside(&path, room) || is_inside(&room.split("::").collect::<Vec<_>>(), &path.join("::")));
        let is_own = path.first() == module.first();
        if opens_forbidden || !is_own && !may.iter().any(|room| is_inside(&path, room)) {
            let shown = if path.is_empty() { "the whole crate".to_owned() } else { path.join("::") };
            offences.push(format!("{}:{line}: {} must not import {shown}", file.path, module.join("::")));
        }
    }
    offences
}

/// The rule of the innermost room that has one.
fn rule_of(module: &[String]) -> Option<&'static Rule> {
    RULES.iter().filter(|rule| is_inside(module, rule.room)).max_by_key(|rule| rule.room.len())
}

fn is_inside(path: &[impl AsRef<str>], room: &str) -> bool {
    let room: Vec<_> = room.split("::").collect();
    path.len() >= room.len() && path.iter().zip(&room).all(|(a, b)| a.as_ref() == *b)
}

/// `src/a/b.rs` and `src/a/b/mod.rs` are the module `a::b`; `src/lib.rs` is none.
fn module(path: &str) -> Vec<String> {
    let inner = path.strip_prefix("src/").unwrap_or(path).trim_end_matches(".rs");
    inner.split('/').filter(|part| !["lib", "mod"].contains(part)).map(str::to_owned).collect()
}

/// All paths that begin with `crate`, `super` or `self`, from the root of the crate, with their lines.
fn paths(tokens: &[Token], module: &[String]) -> Vec<(usize, Vec<String>)> {
    let mut found = Vec::new();
    // The modules that are open within the file, each with the depth of its braces.
    let mut inner: Vec<(usize, String)> = Vec::new();
    let (mut depth, mut at) = (0, 0);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    while at < tokens.len() {
        match text(at) {
            "mod" if text(at + 2) == "{" => {
                inner.push((depth, text(at + 1).to_owned()));
                at += 1;
            }
            "{" => depth += 1,
            "}" => {
                depth -= 1;
                inner.pop_if(|(outside, _)| *outside == depth);
            }
            "crate" | "super" | "self" if text(at + 1) == "::" && (at == 0 || text(at - 1) != "::") => {
                let mut here: Vec<String> = module.to_vec();
                here.extend(inner.iter().map(|(_, name)| name.clone()));
                at = tree(tokens, at, &here, &mut found);
                continue;
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Reads one path with its braces; gives the place after it.
fn tree(tokens: &[Token], mut at: usize, from: &[String], found: &mut Vec<(usize, Vec<String>)>) -> usize {
    let text = |at: usize| tokens.get(at).map_or("", |token| token.text.as_str());
    let line = tokens[at].line;
    let mut path = from.to_vec();
    loop {
        match text(at) {
            "crate" => path.clear(),
            "super" => {
                path.pop();
            }
            "self" | "*" => {}
            "{" => {
                at += 1;
                while !["}", ""].contains(&text(at)) {
                    at = tree(tokens, at, &path, found);
                    // `as other`, and the comma.
                    while ![",", "}", ""].contains(&text(at)) {
                        at += 1;
                    }
                    at += usize::from(text(at) == ",");
                }
                return at + 1;
            }
            name => path.push(name.to_owned()),
        }
        at += 1;
        let goes_on = text(at) == "::" && (text(at + 1).starts_with(|c: char| c.is_alphabetic() || "_{*".contains(c)));
        if !goes_on {
            found.push((line, path));
            return at;
        }
        at += 1;
    }
}

/// A word, `::`, or any other character.
struct Token {
    text: String,
    line: usize,
}

/// Takes a source apart; comments, texts and characters are left out.
fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let (mut rest, mut line) = (source, 1);
    while let Some(first) = rest.chars().next() {
        let (length, keep) = token(rest, first);
        let (text, after) = rest.split_at(length);
        if keep {
            tokens.push(Token { text: text.to_owned(), line });
        }
        line += text.matches('\n').count();
        rest = after;
    }
    tokens
}

/// The length of what stands first, and whether it is kept.
fn token(rest: &str, first: char) -> (usize, bool) {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    if rest.starts_with("//") {
        return (rest.find('\n').unwrap_or(rest.len()), false);
    }
    if rest.starts_with("/*") {
        return (block_comment(rest), false);
    }
    if let Some(length) = raw_text(rest) {
        return (length, false);
    }
    if is_word(first) {
        return (rest.find(|c| !is_word(c)).unwrap_or(rest.len()), true);
    }
    match first {
        '"' => (quoted(rest, '"'), false),
        // A lifetime has no second quote after its first character.
        '\'' if rest[1..].starts_with('\\') || rest.chars().nth(2) == Some('\'') => (quoted(rest, '\''), false),
        ':' if rest.starts_with("::") => (2, true),
        _ => (first.len_utf8(), !first.is_whitespace()),
    }
}

fn block_comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// The length of `r"..."`, `r#"..."#` and so on, also with a `b` before it.
fn raw_text(rest: &str) -> Option<usize> {
    let after = rest.strip_prefix('b').unwrap_or(rest).strip_prefix('r')?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(rest.len() - body.len() + body.find(&end)? + end.len())
}

/// The length of a text or character between two quotes.
fn quoted(rest: &str, quote: char) -> usize {
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return at + 1;
        }
    }
    rest.len()
}
