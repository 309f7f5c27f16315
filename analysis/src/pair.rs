//! Combines two folds of the same records, so that the input is read only once.

use crate::input::Fold;
use crate::input::run::Run;
use crate::record::{Record, Type};

/// Returns the fields of port records that a fold uses: none if it does not use port records.
fn fields<F: Fold>(fold: &F) -> Option<Vec<String>> {
    if fold.uses(Type::Port) {
        fold.fields()
    } else {
        Some(Vec::new())
    }
}

fn takes_runs<F: Fold>(fold: &F) -> bool {
    !fold.uses(Type::Port) || fold.takes_runs()
}

impl<A: Fold, B: Fold> Fold for (A, B) {
    fn uses(&self, kind: Type) -> bool {
        self.0.uses(kind) || self.1.uses(kind)
    }

    fn uses_counters(&self) -> bool {
        self.0.uses_counters() || self.1.uses_counters()
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some([fields(&self.0)?, fields(&self.1)?].concat())
    }

    fn takes_runs(&self) -> bool {
        takes_runs(&self.0) && takes_runs(&self.1)
    }

    fn add_run(&mut self, run: &Run<'_>) {
        if self.0.uses(Type::Port) {
            self.0.add_run(run);
        }
        if self.1.uses(Type::Port) {
            self.1.add_run(run);
        }
    }

    fn uses_every_query(&self) -> bool {
        self.0.uses_every_query() && self.1.uses_every_query()
    }

    fn add(&mut self, record: &Record<'_>) {
        self.0.add(record);
        self.1.add(record);
    }

    fn merge(&mut self, later: Self) {
        self.0.merge(later.0);
        self.1.merge(later.1);
    }
}
