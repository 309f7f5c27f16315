//! Prints messages to standard error.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use ibnet_record::types::Printable;
use miette::Diagnostic;
use textwrap::{Options, WordSeparator, WordSplitter, WrapAlgorithm};

use super::has_colours;

const HEADING: &str = "error:";
const RED_HEADING: &str = "\u{1b}[1;31merror:\u{1b}[0m";

/// Max number of columns of a line on a terminal.
const WIDTH: usize = 80;

/// Prints an error to standard error and returns exit code 1.
///
/// The format is one line `error: ...`, one line for each cause, and then `help: ...`. On a
/// terminal the word `error:` is red unless `NO_COLOR` is set.
pub fn fail(error: &dyn Diagnostic) -> ExitCode {
    show(&explain(error), true);
    ExitCode::FAILURE
}

/// Prints a text to standard error. On a terminal, its lines are wrapped at 80 columns; otherwise
/// it stays unchanged, so that it can be searched.
pub fn note(text: &str) {
    show(text, false);
}

/// Breaks a line between words at 80 columns, and indents the continuation lines by `indent`
/// columns. A word that is longer than a line is not broken.
pub fn fill(line: &str, indent: usize) -> String {
    let indent = " ".repeat(indent);
    let options = Options::new(WIDTH)
        .subsequent_indent(&indent)
        .break_words(false)
        .word_separator(WordSeparator::AsciiSpace)
        .word_splitter(WordSplitter::NoHyphenation)
        .wrap_algorithm(WrapAlgorithm::FirstFit);
    textwrap::fill(line, options)
}

fn explain(error: &dyn Diagnostic) -> String {
    let mut text = String::from(HEADING);
    paragraph(&mut text, &error.to_string());
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str("cause:");
        paragraph(&mut text, &cause.to_string());
        source = cause.source();
    }
    if let Some(help) = error.help() {
        text.push_str("help:");
        paragraph(&mut text, &help.to_string());
    }
    text
}

/// Appends a text after its heading. Indents all lines except the first one, and escapes control
/// characters.
fn paragraph(to: &mut String, text: &str) {
    for (number, line) in text.lines().enumerate() {
        let lead = if number == 0 { " " } else { "      " };
        to.push_str(&format!("{lead}{}\n", Printable(line)));
    }
}

fn show(text: &str, is_error: bool) {
    let mut stderr = io::stderr().lock();
    let mut text = if stderr.is_terminal() {
        wrapped(text)
    } else {
        text.to_owned()
    };
    if is_error && has_colours(&stderr) {
        text = text.replacen(HEADING, RED_HEADING, 1);
    }
    // If standard error is closed, the message cannot be shown anywhere.
    let _ = stderr.write_all(text.as_bytes());
}

/// Breaks long lines. Continuation lines start at the column of the text.
fn wrapped(text: &str) -> String {
    text.lines()
        .map(|line| fill(line.trim_end(), text_column(line)) + "\n")
        .collect()
}

/// Returns the column at which the text of a line begins: after the indentation, after a heading
/// and several blanks, or after `error:`.
fn text_column(line: &str) -> usize {
    const AFTER_HELP: usize = "help: ".len();
    let blanks = line.len() - line.trim_start_matches(' ').len();
    match line.trim_end().find("  ") {
        _ if blanks > 0 => blanks + 2,
        Some(gap) if gap < 12 => line.len() - line[gap..].trim_start_matches(' ').len(),
        _ => AFTER_HELP,
    }
}

#[cfg(test)]
mod tests {
    use super::super::OutputError;
    use super::*;

    #[test]
    fn error_has_cause_and_help_and_no_control_characters() {
        let error = OutputError {
            path: "a\u{1b}[2J".into(),
            source: io::Error::other("first\nsecond"),
        };
        let text = explain(&error);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..3],
            [
                "error: cannot write a\\u{1b}[2J",
                "cause: first",
                "      second"
            ]
        );
        assert!(lines[3].starts_with("help: give a path"), "{text}");
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let word = "word ".repeat(30);
        for (heading, indent) in [
            ("help: ", 6),
            ("note      ", 10),
            ("            line 7: ", 14),
        ] {
            let text = wrapped(&format!("{heading}{word}\nshort\n"));
            let lines: Vec<_> = text.lines().collect();
            assert!(
                lines.len() > 2 && lines.iter().all(|line| line.len() <= 80),
                "{text}"
            );
            assert!(lines[0].starts_with(heading), "{text}");
            assert!(
                lines[1].starts_with(&format!("{:indent$}word", "")),
                "{text}"
            );
            assert_eq!(
                text.split_whitespace()
                    .filter(|each| *each == "word")
                    .count(),
                30
            );
            assert_eq!(lines.last(), Some(&"short"));
        }
        assert_eq!(wrapped(&"x".repeat(100)), "x".repeat(100) + "\n");
        assert_eq!(
            wrapped("\n --report FILE  has all\n"),
            "\n --report FILE  has all\n"
        );
    }
}
