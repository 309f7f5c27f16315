//! Host lists in the notation of Slurm and ClusterShell: `node[001-100/2,200],admin1`.
//!
//! Commas and blanks separate the parts of a list. A part is a name that can contain pairs of
//! brackets. A pair of brackets contains numbers and ranges, separated by commas. A part with
//! several pairs of brackets stands for all combinations: `rack[1-2]n[01-16]` has 32 names. A range
//! can have a step: `[2-10/2]`. If the lower bound has leading zeros, all numbers of the range have
//! at least as many digits as the lower bound. Groups (`@rack1`) and set operations (`!`, `&`, `^`)
//! of ClusterShell are rejected.
//!
//! A parsed list keeps its ranges. [`HostList::count`] and [`HostList::names`] do not expand it. So
//! a caller can reject a list that is too long before it allocates any name.
//!
//! ```
//! use ibnet_record::hostlist::{HostList, fold};
//!
//! let list = HostList::parse("rack[1-2]n[01-02],admin1")?;
//! assert_eq!(list.count(), 5);
//! let names: Vec<String> = list.names().collect();
//! assert_eq!(names, ["rack1n01", "rack1n02", "rack2n01", "rack2n02", "admin1"]);
//! assert_eq!(fold(names.iter().map(String::as_str)), "admin1,rack[1-2]n[01-02]");
//! # Ok::<(), ibnet_record::hostlist::HostListError>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};

use miette::Diagnostic;

use crate::types::Printable;

/// Largest number of hosts in a list of the command line or of a file. No fabric has more hosts,
/// because unicast LIDs end at 49151.
pub const MAX_HOSTS: u64 = 100_000;

/// Largest number of digits of a number within brackets. A number with this many digits fits into
/// 64 bits.
const MAX_DIGITS: usize = 18;

/// Reason why a host list is rejected.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error, Diagnostic)]
pub enum HostListError {
    /// The text is not a host list.
    #[error("column {column}: {problem}")]
    #[diagnostic(help(
        "write names and ranges separated by commas, for example `node[001-012],admin1`"
    ))]
    Syntax {
        /// Column of the first wrong character, counted in characters from 1.
        column: usize,
        /// Description of the problem.
        problem: &'static str,
    },
    /// The list is longer than the caller accepts.
    #[error("`{}` stands for more than {limit} hosts", Printable(text))]
    #[diagnostic(help("check the numbers within the brackets"))]
    TooMany {
        /// The text of the list.
        text: String,
        /// Largest number of hosts that the caller accepts.
        limit: u64,
    },
}

/// A host list that was parsed but not expanded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostList {
    parts: Vec<Part>,
}

/// A part of a list, such as `rack[1-2]n[01-16]`. Its pieces are texts and pairs of brackets. Its
/// names are all combinations of the pieces.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Part {
    pieces: Vec<Piece>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    /// The ranges in a pair of brackets. The number beside each range is the number of values in
    /// the ranges before it.
    Ranges(Vec<(u64, Range)>),
}

/// Numbers from `low` in steps of `step`. `count` is at least 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Range {
    low: u64,
    step: u64,
    count: u64,
    /// Smallest number of digits. Shorter numbers get leading zeros.
    width: usize,
}

impl HostList {
    /// Parses a list. An empty text is an empty list.
    ///
    /// # Errors
    /// Returns [`HostListError::Syntax`] with the column of the first wrong character.
    pub fn parse(text: &str) -> Result<Self, HostListError> {
        let parts = split(text).map(|(start, part)| {
            let before = text[..start].chars().count();
            Part::parse(part).map_err(|(at, problem)| HostListError::Syntax {
                column: before + part[..at].chars().count() + 1,
                problem,
            })
        });
        Ok(Self {
            parts: parts.collect::<Result<_, _>>()?,
        })
    }

    /// Parses a list of at most `limit` hosts. If the list is longer, no name is allocated.
    ///
    /// # Errors
    /// Returns [`HostListError::Syntax`] for the same texts as [`HostList::parse`], and
    /// [`HostListError::TooMany`] for a longer list.
    pub fn parse_bounded(text: &str, limit: u64) -> Result<Self, HostListError> {
        let list = Self::parse(text)?;
        if list.count() > limit {
            Err(HostListError::TooMany {
                text: text.to_owned(),
                limit,
            })
        } else {
            Ok(list)
        }
    }

    /// Returns the number of names, or `u64::MAX` if there are more. A repeated name is counted
    /// each time.
    pub fn count(&self) -> u64 {
        self.parts
            .iter()
            .map(Part::count)
            .fold(0, u64::saturating_add)
    }

    /// Returns the names one by one, in the order of the list. The last bracket varies fastest.
    pub fn names(&self) -> impl Iterator<Item = String> + '_ {
        self.parts
            .iter()
            .flat_map(|part| (0..part.count()).map(|index| part.name(index)))
    }
}

/// Returns the parts of a list, each with its start in octets. Commas and blanks outside of
/// brackets separate parts. Empty parts are left out.
pub fn split(list: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut within = false;
    let separates = move |c: char| {
        within = (within || c == '[') && c != ']';
        !within && (c == ',' || c.is_whitespace())
    };
    let start = move |part: &str| part.as_ptr() as usize - list.as_ptr() as usize;
    list.split(separates)
        .filter(|part| !part.is_empty())
        .map(move |part| (start(part), part))
}

impl Part {
    /// Parses a part. An error contains the position of the wrong character in the part, in octets.
    fn parse(text: &str) -> Result<Self, (usize, &'static str)> {
        let mut pieces = Vec::new();
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            if let Some(inside) = rest.strip_prefix('[') {
                let end = inside.find(']').ok_or((at, "the bracket is not closed"))?;
                pieces.push(Piece::Ranges(ranges(&inside[..end], at + 1)?));
                at += end + 2;
            } else {
                let end = rest.find('[').unwrap_or(rest.len());
                let wrong = rest[..end]
                    .char_indices()
                    .find(|(_, c)| !(c.is_alphanumeric() || "-_.".contains(*c)));
                if let Some((offset, c)) = wrong {
                    return Err((at + offset, problem_of(c)));
                }
                pieces.push(Piece::Text(rest[..end].to_owned()));
                at += end;
            }
        }
        Ok(Self { pieces })
    }

    fn count(&self) -> u64 {
        self.pieces
            .iter()
            .map(Piece::count)
            .fold(1, u64::saturating_mul)
    }

    fn name(&self, mut index: u64) -> String {
        let mut name = Vec::with_capacity(self.pieces.len());
        for piece in self.pieces.iter().rev() {
            name.push(piece.text(index % piece.count()));
            index /= piece.count();
        }
        name.reverse();
        name.concat()
    }
}

fn problem_of(c: char) -> &'static str {
    match c {
        ']' => "the bracket is not opened",
        '@' => "groups are not supported, expand them first (`nodeset -e`)",
        '!' | '&' | '^' => "set operations are not supported, expand them first (`nodeset -e`)",
        _ => "expected letters, digits, `-`, `_`, `.` or ranges in brackets",
    }
}

impl Piece {
    /// Returns the number of texts that result from the piece. It is at least 1.
    fn count(&self) -> u64 {
        match self {
            Self::Text(_) => 1,
            Self::Ranges(ranges) => ranges
                .last()
                .map_or(1, |(before, range)| before.saturating_add(range.count)),
        }
    }

    fn text(&self, index: u64) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Ranges(ranges) => {
                let found = ranges
                    .partition_point(|(before, _)| *before <= index)
                    .checked_sub(1)
                    .and_then(|n| ranges.get(n));
                found
                    .map(|(before, range)| {
                        format!(
                            "{:0width$}",
                            range.low + (index - before) * range.step,
                            width = range.width
                        )
                    })
                    .unwrap_or_default()
            }
        }
    }
}

/// Parses the content of a pair of brackets, which begins at octet `start` of the part.
fn ranges(text: &str, start: usize) -> Result<Vec<(u64, Range)>, (usize, &'static str)> {
    let mut ranges = Vec::new();
    let (mut at, mut before) = (start, 0_u64);
    for item in text.split(',') {
        let range = range(item).map_err(|problem| (at, problem))?;
        ranges.push((before, range));
        before = before.saturating_add(range.count);
        at += item.len() + 1;
    }
    Ok(ranges)
}

/// Parses `3`, `1-9` or `1-9/2`.
fn range(text: &str) -> Result<Range, &'static str> {
    const EXPECTED: &str = "expected a number or a range such as 1-4, 001-120 or 2-10/2";
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (bounds, step) = text
        .split_once('/')
        .map_or((text, None), |(bounds, step)| (bounds, Some(step)));
    let (low, high) = bounds.split_once('-').unwrap_or((bounds, bounds));
    if !is_number(low)
        || !is_number(high)
        || !step.is_none_or(is_number)
        || (step.is_some() && !bounds.contains('-'))
    {
        return Err(if text.contains('[') {
            "brackets cannot be nested"
        } else {
            EXPECTED
        });
    }
    if low.len() > MAX_DIGITS || step.is_some_and(|step| step.len() > MAX_DIGITS) {
        return Err("a number has more than 18 digits");
    }
    let is_padded = |text: &str| text.len() > 1 && text.starts_with('0');
    if is_padded(high) && high.len() != low.len() {
        return Err("the bounds of the range are padded to different widths");
    }
    let number = |text: &str| text.parse().unwrap_or(u64::MAX);
    let (width, low, high, step) = (
        if is_padded(low) { low.len() } else { 0 },
        number(low),
        number(high),
        step.map_or(1, number),
    );
    match high.checked_sub(low) {
        _ if step == 0 => Err("the step is 0"),
        None => Err("the range descends"),
        Some(length) => Ok(Range {
            low,
            step,
            count: (length / step).saturating_add(1),
            width,
        }),
    }
}

/// A part of a name while names are folded. Numbers sort by value and before texts.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Token {
    Number(u64, String),
    /// Place of the number that is being folded.
    Hole,
    Ranges(String),
    Text(String),
}

/// Writes names as a short list that [`HostList::parse`] expands to the same names, each once.
///
/// Folds the last number of a name first, and the first number last: `r1n1 r1n2 r2n1 r2n2` gives
/// `r[1-2]n[1-2]`. Numbers with different padding (`n1`, `n01`) are not folded together.
pub fn fold<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut entries: BTreeSet<Vec<Token>> = names.into_iter().map(tokens).collect();
    let numbers = |entry: &Vec<Token>| {
        entry
            .iter()
            .filter(|token| matches!(token, Token::Number(..)))
            .count()
    };
    for position in 0..entries.iter().map(numbers).max().unwrap_or(0) {
        entries = folded_at(entries, position);
    }
    let text = |token: &Token| match token {
        Token::Number(_, text) | Token::Ranges(text) | Token::Text(text) => text.clone(),
        Token::Hole => String::new(),
    };
    entries
        .iter()
        .map(|entry| entry.iter().map(text).collect::<String>())
        .collect::<Vec<_>>()
        .join(",")
}

fn tokens(name: &str) -> Vec<Token> {
    let is_digit = |c: char| c.is_ascii_digit();
    let mut tokens = Vec::new();
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        let end = rest
            .find(|c| is_digit(c) != is_digit(first))
            .unwrap_or(rest.len());
        let (text, after) = rest.split_at(end);
        let number = text.parse().ok().filter(|_| text.len() <= MAX_DIGITS);
        tokens.push(number.map_or_else(
            || Token::Text(text.to_owned()),
            |number| Token::Number(number, text.to_owned()),
        ));
        rest = after;
    }
    tokens
}

/// Folds the entries that differ only in one number. `position` selects this number: it is counted
/// from the end, over numbers and ranges.
fn folded_at(entries: BTreeSet<Vec<Token>>, position: usize) -> BTreeSet<Vec<Token>> {
    let mut groups: BTreeMap<Vec<Token>, Vec<(u64, String)>> = BTreeMap::new();
    let mut folded = BTreeSet::new();
    for mut entry in entries {
        let counted = |token: &Token| matches!(token, Token::Number(..) | Token::Ranges(_));
        let found = entry
            .iter_mut()
            .rev()
            .filter(|token| counted(token))
            .nth(position);
        match found.map(|token| std::mem::replace(token, Token::Hole)) {
            Some(Token::Number(number, text)) => {
                groups.entry(entry).or_default().push((number, text));
            }
            _ => drop(folded.insert(entry)),
        }
    }
    for (entry, numbers) in groups {
        for token in ranges_of(&numbers) {
            let fill = |part: &Token| {
                if *part == Token::Hole {
                    token.clone()
                } else {
                    part.clone()
                }
            };
            folded.insert(entry.iter().map(fill).collect());
        }
    }
    folded
}

/// Writes numbers as ranges. Numbers with different padding get separate tokens.
fn ranges_of(numbers: &[(u64, String)]) -> Vec<Token> {
    let padded: BTreeSet<usize> = numbers
        .iter()
        .map(|(_, text)| text)
        .filter(|text| text.len() > 1 && text.starts_with('0'))
        .map(String::len)
        .collect();
    let mut by_width: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for (number, text) in numbers {
        by_width
            .entry(if padded.contains(&text.len()) {
                text.len()
            } else {
                0
            })
            .or_default()
            .insert(*number);
    }
    by_width
        .into_iter()
        .map(|(width, numbers)| token_of(width, &numbers))
        .collect()
}

fn token_of(width: usize, numbers: &BTreeSet<u64>) -> Token {
    let text = |number: u64| format!("{number:0width$}");
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some((_, high)) if *high + 1 == *number => *high = *number,
            _ => runs.push((*number, *number)),
        }
    }
    match runs[..] {
        [(low, high)] if low == high => Token::Number(low, text(low)),
        _ => {
            let run = |(low, high): &(u64, u64)| {
                if low == high {
                    text(*low)
                } else {
                    format!("{}-{}", text(*low), text(*high))
                }
            };
            Token::Ranges(format!(
                "[{}]",
                runs.iter().map(run).collect::<Vec<_>>().join(",")
            ))
        }
    }
}

/// Returns the host name that is most similar to `wanted`, or `None` if no name is similar. The
/// best match is a name that differs only in case, leading zeros or its domain. If several names
/// are equally similar, returns the first of them.
pub fn nearest<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    /// Smallest Jaro-Winkler similarity of a suggestion.
    const SIMILAR: f64 = 0.8;
    let names: Vec<_> = names.map(|name| (normalized(name), name)).collect();
    let wanted = normalized(wanted);
    if let Some((_, name)) = names.iter().find(|(normalized, _)| *normalized == wanted) {
        return Some(name);
    }
    let scored = names
        .into_iter()
        .map(|(normalized, name)| (strsim::jaro_winkler(&wanted, &normalized), name));
    scored
        .filter(|(score, _)| *score >= SIMILAR)
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
        .map(|(_, name)| name)
}

/// Returns a host name in lower case, without its domain and without leading zeros of its numbers.
fn normalized(name: &str) -> String {
    let host = name.split_once('.').map_or(name, |(host, _)| host);
    let mut normalized = String::with_capacity(host.len());
    for (at, c) in host.char_indices() {
        let begins = !normalized.ends_with(|c: char| c.is_ascii_digit());
        let goes_on = host[at..]
            .chars()
            .nth(1)
            .is_some_and(|next| next.is_ascii_digit());
        if !(c == '0' && begins && goes_on) {
            normalized.extend(c.to_lowercase());
        }
    }
    normalized
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        HostList::parse(text).unwrap().names().collect()
    }

    fn error(text: &str) -> (usize, &'static str) {
        match HostList::parse(text) {
            Err(HostListError::Syntax { column, problem }) => (column, problem),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn ranges_steps_and_products_expand_in_order() {
        assert_eq!(
            names("node[001-003],admin1"),
            ["node001", "node002", "node003", "admin1"]
        );
        assert_eq!(
            names("rack[1-2]n[01-02]"),
            ["rack1n01", "rack1n02", "rack2n01", "rack2n02"]
        );
        assert_eq!(
            names("n[2-7/2] a-b.example\tx_1"),
            ["n2", "n4", "n6", "a-b.example", "x_1"]
        );
        assert_eq!(names("[1-2]-login,7"), ["1-login", "2-login", "7"]);
        assert_eq!(
            names("a[1-2],b[3,5-6,10-12/2]c"),
            ["a1", "a2", "b3c", "b5c", "b6c", "b10c", "b12c"]
        );
        let stepped = HostList::parse("node[001-100/2,200]").unwrap();
        assert_eq!(
            (
                stepped.count(),
                stepped.names().nth(49),
                stepped.names().last()
            ),
            (51, Some("node099".into()), Some("node200".into()))
        );
        assert_eq!(HostList::parse("rack[1-2]n[01-16]").unwrap().count(), 32);
        assert_eq!(names(" , ,"), [""; 0]);
    }

    #[test]
    fn padding_follows_the_lower_bound() {
        assert_eq!(names("n[8-11]"), ["n8", "n9", "n10", "n11"]);
        assert_eq!(names("n[08-11]"), ["n08", "n09", "n10", "n11"]);
        assert_eq!(
            names("n[0-1,00,098-100]"),
            ["n0", "n1", "n00", "n098", "n099", "n100"]
        );
        assert_eq!(
            names("n[99-101],n[099-1000/901]"),
            ["n99", "n100", "n101", "n099", "n1000"]
        );
        assert_eq!(
            names("n007x12345678901234567890"),
            ["n007x12345678901234567890"]
        );
    }

    #[test]
    fn syntax_errors_name_the_column() {
        assert_eq!(error("n[1-2"), (2, "the bracket is not closed"));
        assert_eq!(error("a,n]1["), (4, "the bracket is not opened"));
        assert_eq!(error("n[[1-2]]"), (3, "brackets cannot be nested"));
        assert_eq!(
            error("é,n[1,b-c]"),
            (
                7,
                "expected a number or a range such as 1-4, 001-120 or 2-10/2"
            )
        );
        assert_eq!(error("n[5-1]"), (3, "the range descends"));
        assert_eq!(error("n[1-5/0]"), (3, "the step is 0"));
        assert_eq!(
            error("n[1-010]").1,
            "the bounds of the range are padded to different widths"
        );
        assert_eq!(
            error("n[1234567890123456789]").1,
            "a number has more than 18 digits"
        );
        for text in [
            "n[]",
            "n[1,]",
            "n[-1]",
            "n[1-]",
            "n[1-2-3]",
            "n[1/2]",
            "n[1-2/]",
            "n[1-2/2/2]",
            "n[+1]",
            "n[ 1]",
        ] {
            assert_eq!(
                error(text).1,
                "expected a number or a range such as 1-4, 001-120 or 2-10/2",
                "{text}"
            );
        }
        for (text, start) in [
            ("@all", "groups"),
            ("a&b", "set operations"),
            ("a!b", "set operations"),
            ("a$(b)", "expected letters"),
        ] {
            assert!(error(text).1.starts_with(start), "{text}");
        }
        assert_eq!(
            HostList::parse("a,b[").unwrap_err().to_string(),
            "column 4: the bracket is not closed"
        );
    }

    #[test]
    fn lists_that_are_too_long_are_rejected_without_allocation() {
        let lists = [
            "h1x[1-99999999]",
            "[1-99999][1-99999]",
            "n[1-100000],m",
            "n[1-99999999999999999999]",
            "n[0-9][0-9][0-9][0-9][0-9][0-9]",
            "a[0-999999999999999999,0-999999999999999999][0-999999999999999999]",
        ];
        for text in lists {
            // Parsing allocates some octets for each bracket, and no name.
            let mut found = None;
            let allocated = allocation_counter::measure(|| {
                found = Some(HostList::parse_bounded(text, MAX_HOSTS));
            });
            assert!(
                matches!(
                    found,
                    Some(Err(HostListError::TooMany {
                        limit: MAX_HOSTS,
                        ..
                    }))
                ),
                "{text}: {found:?}"
            );
            assert!(
                allocated.bytes_total < 4096,
                "{text}: {} octets",
                allocated.bytes_total
            );
        }
        assert_eq!(
            HostList::parse_bounded("n[1-100000]", MAX_HOSTS).map(|list| list.count()),
            Ok(100_000)
        );
        let error = HostList::parse_bounded("n[1-9]", 8).unwrap_err();
        assert_eq!(error.to_string(), "`n[1-9]` stands for more than 8 hosts");
    }

    #[test]
    fn names_are_folded_over_all_their_numbers() {
        for (names, folded) in [
            (
                &["node001", "node002", "node010", "admin1"][..],
                "admin1,node[001-002,010]",
            ),
            (&["r1n1", "r2n2"], "r1n1,r2n2"),
            (&["r1n1", "r1n2", "r2n1", "r2n2"], "r[1-2]n[1-2]"),
            (&["r9n1", "r10n2", "r10n1"], "r9n1,r10n[1-2]"),
            (&["n1", "n01", "n2", "n10"], "n[01,10],n[1-2]"),
            (
                &["a-b.example", "7", "n99999999999999999999"],
                "7,a-b.example,n99999999999999999999",
            ),
            (&["b", "a", "b"], "a,b"),
            (&[], ""),
        ] {
            assert_eq!(fold(names.iter().copied()), folded);
        }
    }

    proptest::proptest! {
        #[test]
        fn folded_names_expand_to_the_same_names(names in proptest::collection::btree_set("[ab]{0,1}[0-9]{1,3}(-[0-9]{1,2}){0,2}c?", 0..40)) {
            let folded = fold(names.iter().map(String::as_str));
            let list = HostList::parse(&folded).unwrap();
            proptest::prop_assert_eq!(list.count(), names.len() as u64, "{}", folded);
            proptest::prop_assert_eq!(list.names().collect::<BTreeSet<_>>(), names);
        }

        #[test]
        fn any_text_is_parsed_or_rejected(text in "([a-c]{0,2}(\\[[0-9]{0,3}(-[0-9]{1,20})?(/[0-9]{1,2})?(,[0-9]{0,2})?\\]?){0,3}[0-9@\u{e9}]{0,2}[,: ]?){0,4}") {
            match HostList::parse_bounded(&text, 1000) {
                Ok(list) => proptest::prop_assert_eq!(list.names().count() as u64, list.count()),
                Err(HostListError::Syntax { column, .. }) => proptest::prop_assert!((1..=text.chars().count()).contains(&column)),
                Err(HostListError::TooMany { limit, .. }) => proptest::prop_assert!(HostList::parse(&text).is_ok_and(|list| list.count() > limit)),
            }
        }
    }
}
