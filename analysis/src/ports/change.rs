//! By how much a counter moved.

/// A counter over the time of the input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moved {
    /// By how much; where it was cleared, what it counted since then is in it.
    pub by: u64,
    /// Whether it moved by more than that: it was cleared in between, or it is full.
    pub at_least: bool,
    first: u64,
    /// What it was last.
    pub last: u64,
}

impl Moved {
    /// One that was read once.
    pub const fn new(value: u64, is_full: bool) -> Self {
        Self { by: 0, at_least: is_full, first: value, last: value }
    }

    /// Takes the next reading.
    pub const fn take(&mut self, value: u64, is_full: bool) {
        self.merge(Self::new(value, is_full));
    }

    /// Takes all later readings.
    pub const fn merge(&mut self, later: Self) {
        let was_cleared = later.first < self.last;
        let between = if was_cleared { later.first } else { later.first - self.last };
        self.by = self.by.saturating_add(between).saturating_add(later.by);
        self.at_least = self.at_least || later.at_least || was_cleared;
        self.last = later.last;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[u64]) -> Moved {
        let mut moved = Moved::new(values[0], false);
        values[1..].iter().for_each(|value| moved.take(*value, false));
        moved
    }

    #[test]
    fn steps_are_summed_and_a_clear_is_none() {
        assert_eq!(of(&[7]).by, 0);
        assert_eq!((of(&[7, 9, 9, 12]).by, of(&[7, 9, 9, 12]).at_least), (5, false));
        // 7 to 9, cleared, up to 3, and on to 4.
        assert_eq!((of(&[7, 9, 3, 4]).by, of(&[7, 9, 3, 4]).at_least), (6, true));
    }

    #[test]
    fn parts_merge_to_the_whole() {
        let values = [7, 9, 3, 4, 4, 1, 8];
        for cut in 1..values.len() {
            let mut first = of(&values[..cut]);
            first.merge(of(&values[cut..]));
            assert_eq!(first, of(&values), "cut at {cut}");
        }
    }

    #[test]
    fn what_is_full_is_at_least_that() {
        let mut moved = Moved::new(200, false);
        moved.take(255, true);
        assert_eq!((moved.by, moved.at_least), (55, true));
    }
}
