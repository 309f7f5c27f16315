//! Dictionary ids of a text column: for each row, the id of its string.
//!
//! Rows of an archive are sorted by port, so most rows have the same strings as the row before
//! them. Archives therefore store the ids run-length encoded, and readers use the runs as they are
//! instead of expanding them to rows.

use std::borrow::Cow;
use std::ops::Range;

/// Min mean length of the runs of a column that stays run-length encoded.
const MIN_RUN: usize = 8;

/// An id for each row.
#[derive(Clone, Debug)]
pub enum Ids {
    /// The id of each row.
    Each(Vec<u32>),
    /// Consecutive rows with the same id: the id, and the row after the last one.
    Runs(Vec<(u32, usize)>),
}

impl Default for Ids {
    fn default() -> Self {
        Self::Each(Vec::new())
    }
}

impl From<Vec<u32>> for Ids {
    fn from(ids: Vec<u32>) -> Self {
        Self::Each(ids)
    }
}

impl Ids {
    /// Creates a column in which all rows have one id.
    pub(crate) fn same(id: u32, rows: usize) -> Self {
        Self::Runs(if rows == 0 {
            Vec::new()
        } else {
            vec![(id, rows)]
        })
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Each(ids) => ids.len(),
            Self::Runs(runs) => runs.last().map_or(0, |(_, end)| *end),
        }
    }

    /// Returns whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the id of a row, or `None` after the last row.
    pub fn get(&self, row: usize) -> Option<u32> {
        match self {
            Self::Each(ids) => ids.get(row).copied(),
            Self::Runs(runs) => runs
                .get(runs.partition_point(|(_, end)| *end <= row))
                .map(|(id, _)| *id),
        }
    }

    /// Returns the ids of all rows.
    pub fn all(&self) -> Cow<'_, [u32]> {
        match self {
            Self::Each(ids) => Cow::Borrowed(ids),
            Self::Runs(_) => Cow::Owned(
                self.runs()
                    .flat_map(|(rows, id)| std::iter::repeat_n(id, rows.len()))
                    .collect(),
            ),
        }
    }

    /// Iterates over the runs: consecutive rows, and their id.
    pub fn runs(&self) -> impl Iterator<Item = (Range<usize>, u32)> {
        let (each, runs): (&[u32], &[(u32, usize)]) = match self {
            Self::Each(ids) => (ids, &[]),
            Self::Runs(runs) => (&[], runs),
        };
        let mut start = 0;
        let mut rows = move |end: usize| std::mem::replace(&mut start, end)..end;
        let mut end = 0;
        let of_each = each.chunk_by(|a, b| a == b).map(move |equal| {
            end += equal.len();
            (equal[0], end)
        });
        of_each
            .chain(runs.iter().copied())
            .map(move |(id, end)| (rows(end), id))
    }

    /// Expands the runs to rows if they are short. Records of two samplers of a port alternate, and
    /// a binary search for the run of a row would then take longer than an index.
    pub(crate) fn settle(&mut self) {
        if let Self::Runs(runs) = self
            && runs.len() > self.len() / MIN_RUN
        {
            *self = Self::Each(self.all().into_owned());
        }
    }

    /// Appends rows with an id.
    pub(crate) fn extend(&mut self, id: u32, rows: usize) {
        if rows == 0 {
            return;
        }
        let end = self.len() + rows;
        match self {
            Self::Each(ids) => ids.resize(end, id),
            Self::Runs(runs) => match runs.last_mut() {
                Some((last, end_of_last)) if *last == id => *end_of_last = end,
                _ => runs.push((id, end)),
            },
        }
    }

    pub(crate) fn push(&mut self, id: u32) {
        self.extend(id, 1);
    }

    /// Appends rows with an id until there are `rows` rows.
    pub(crate) fn fill(&mut self, id: u32, rows: usize) {
        self.extend(id, rows.saturating_sub(self.len()));
    }

    pub(crate) fn pop(&mut self) {
        match self {
            Self::Each(ids) => drop(ids.pop()),
            Self::Runs(runs) => {
                let start = runs.len().checked_sub(2).map_or(0, |before| runs[before].1);
                if let Some((_, end)) = runs.last_mut() {
                    *end -= 1;
                    if *end == start {
                        runs.pop();
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_and_single_numbers_are_the_same(steps in proptest::collection::vec((0_u8..6, 0_u32..3, 0_usize..4), 0..40)) {
            let (mut each, mut runs) = (Ids::default(), Ids::Runs(Vec::new()));
            for (step, id, rows) in steps {
                for ids in [&mut each, &mut runs] {
                    match step {
                        0 => ids.pop(),
                        1 => ids.fill(u32::MAX, ids.len() + rows),
                        _ => ids.extend(id, rows),
                    }
                }
                prop_assert_eq!((each.len(), each.all()), (runs.len(), runs.all()));
                prop_assert!((0..each.len() + 2).all(|row| each.get(row) == runs.get(row)), "{:?}", runs);
                prop_assert!(each.runs().eq(runs.runs()), "{:?}", runs);
                prop_assert_eq!(runs.runs().map(|(rows, _)| rows.len()).sum::<usize>(), runs.len());
            }
        }
    }

    #[test]
    fn same_number_is_one_run() {
        assert_eq!(Ids::same(4, 3).all().as_ref(), [4, 4, 4]);
        assert_eq!(Ids::same(4, 3).runs().count(), 1);
        assert!(Ids::same(4, 0).is_empty());
    }

    #[test]
    fn short_runs_become_single_numbers() {
        let of = |length: usize| {
            let mut ids = Ids::Runs(Vec::new());
            (0..100).for_each(|run| ids.extend(run % 2, length));
            ids.settle();
            ids
        };
        assert!(matches!(of(1), Ids::Each(ids) if ids.len() == 100));
        assert!(matches!(of(MIN_RUN), Ids::Runs(runs) if runs.len() == 100));
    }
}
