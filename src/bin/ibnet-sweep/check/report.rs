//! Output of `check` and `verify`: one line per step, and the totals at the end of `check`.

use std::io::IsTerminal;

use ibnet::cli;
use ibnet_record::types::Printable;
use miette::Diagnostic;

use crate::failure::Failure;

/// The result of a step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Ok,
    Warn,
    Fail,
    Skip,
    /// Two values that should be equal are different.
    #[cfg(feature = "umad")]
    Differ,
}

impl Verdict {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Skip => "skip",
            #[cfg(feature = "umad")]
            Self::Differ => "diff",
        }
    }

    /// Returns the escape sequence of the colour on a terminal.
    const fn colour(self) -> &'static str {
        match self {
            Self::Ok => "\u{1b}[32m",
            Self::Warn => "\u{1b}[33m",
            Self::Fail => "\u{1b}[1;31m",
            #[cfg(feature = "umad")]
            Self::Differ => "\u{1b}[1;31m",
            Self::Skip => "\u{1b}[2m",
        }
    }
}

/// Number of results of each kind so far.
#[derive(Default)]
pub(crate) struct Report {
    ok: u32,
    warned: u32,
    failed: u32,
}

impl Report {
    /// Prints a line and its remedy. Control characters are escaped.
    pub(crate) fn line(
        &mut self,
        verdict: Verdict,
        what: &str,
        found: &str,
        remedy: Option<&str>,
    ) -> Result<(), Failure> {
        match verdict {
            Verdict::Ok => self.ok += 1,
            Verdict::Warn => self.warned += 1,
            Verdict::Fail => self.failed += 1,
            Verdict::Skip => {}
            #[cfg(feature = "umad")]
            Verdict::Differ => self.failed += 1,
        }
        let found: Vec<_> = found
            .lines()
            .map(|line| Printable(line).to_string())
            .collect();
        let (before, after) = if cli::colours_stdout() {
            (verdict.colour(), "\u{1b}[0m")
        } else {
            ("", "")
        };
        let mut text = format!(
            "{before}{:<4}{after}  {what:<13}  {}\n",
            verdict.word(),
            wrapped(&found.join(" "))
        );
        for (number, line) in remedy.unwrap_or_default().lines().enumerate() {
            let heading = if number == 0 { "remedy:" } else { "" };
            text.push_str(&format!(
                "      {heading:<13}  {}\n",
                wrapped(&Printable(line.trim()).to_string())
            ));
        }
        cli::print(text.as_bytes()).map_err(Failure::Stdout)
    }

    pub(super) fn warn(&mut self, what: &str, found: &str, remedy: &str) -> Result<(), Failure> {
        self.line(Verdict::Warn, what, found, Some(remedy))
    }

    pub(super) fn fail(&mut self, what: &str, error: &dyn Diagnostic) -> Result<(), Failure> {
        let mut found = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            found.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        self.line(
            Verdict::Fail,
            what,
            &found,
            error.help().map(|help| help.to_string()).as_deref(),
        )
    }

    /// Prints the line of a step and returns the value that later steps need.
    pub(super) fn step<V, E: Diagnostic>(
        &mut self,
        what: &str,
        done: Result<V, E>,
        describe: impl FnOnce(&V) -> String,
    ) -> Result<Option<V>, Failure> {
        match done {
            Ok(value) => self
                .line(Verdict::Ok, what, &describe(&value), None)
                .map(|()| Some(value)),
            Err(error) => self.fail(what, &error).map(|()| None),
        }
    }

    /// Prints the totals and returns the exit code.
    pub(super) fn end(self) -> Result<u8, Failure> {
        let Self { ok, warned, failed } = self;
        cli::print(format!("\n{failed} failed, {warned} warned, {ok} ok\n").as_bytes())
            .map_err(Failure::Stdout)?;
        Ok(u8::from(failed > 0))
    }
}

/// Wraps the text of the last column on a terminal. Otherwise lines are not wrapped, so that they
/// can be searched.
fn wrapped(text: &str) -> String {
    /// Blanks before the text. [`WIDTH`] is the width of a line including these blanks.
    const INDENT: &str = "                     ";
    const WIDTH: usize = INDENT.len() + 80;
    if !std::io::stdout().is_terminal() {
        return text.to_owned();
    }
    let options = textwrap::Options::new(WIDTH)
        .initial_indent(INDENT)
        .subsequent_indent(INDENT)
        .word_splitter(textwrap::WordSplitter::NoHyphenation)
        .break_words(false);
    textwrap::fill(text, options).trim_start().to_owned()
}
