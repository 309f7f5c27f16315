//! Combines two folds of the same records, so that the input is read only once.

use crate::input::Fold;
use crate::input::run::Run;
use crate::record::{Record, Type};

impl<A: Fold, B: Fold> Fold for (A, B) {
    fn uses(&self, kind: Type) -> bool {
        self.0.uses(kind) || self.1.uses(kind)
    }

    fn uses_counters(&self) -> bool {
        self.0.uses_counters() || self.1.uses_counters()
    }

    fn fields(&self) -> Option<Vec<String>> {
        Some([self.0.fields()?, self.1.fields()?].concat())
    }

    fn takes_runs(&self) -> bool {
        self.0.takes_runs() && self.1.takes_runs()
    }

    fn add_run(&mut self, run: &Run<'_>) {
        self.0.add_run(run);
        self.1.add_run(run);
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
