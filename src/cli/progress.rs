//! Draws progress bars on a terminal.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A progress bar, which is shown only on a terminal.
#[derive(Clone, Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// Creates a bar with a number of steps. `unit` is what the steps are called, such as `slots`.
    pub fn new(steps: u64, unit: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template(&format!(
            "{{wide_bar:.cyan/blue}} {{pos}} of {{len}} {unit}"
        ));
        Self(style.map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style)))
    }

    /// Creates a bar that is never shown.
    pub fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Advances the bar by one step.
    pub fn advance(&self) {
        self.0.inc(1);
    }

    /// Sets the number of completed steps.
    pub fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// Sets the number of completed steps, and the number of all steps.
    pub fn set_of(&self, done: u64, steps: u64) {
        self.0.set_length(steps);
        self.0.set_position(done);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
