//! Adds many records of a port to a heat map at once.

use ibnet_record::slots::{WholeSlots, interval_of_slot};

use super::track::State;
use super::{HeatMap, slot_of_columns};
use crate::input::run::{MeasuredOver, Run};
use crate::silence::silent_time;

impl HeatMap {
    /// Adds the values of all metrics. Every metric of the heat map must have a
    /// [`field`](crate::metric::Metric::field).
    pub(super) fn put_run(&mut self, run: &Run<'_>) {
        if !self.is_selected(run.port()) {
            return;
        }
        let row = self.row(run.port());
        let before = self.rows[row].last_ts;
        let metrics = std::sync::Arc::clone(&self.metrics);
        for (index, metric) in metrics.iter().enumerate() {
            let Some((field, over)) = metric.field() else {
                continue;
            };
            self.rows[row].last_ts = before;
            self.put_values(row, index, run, run.values(field), over);
        }
    }

    fn put_values(
        &mut self,
        row: usize,
        metric: usize,
        run: &Run<'_>,
        values: Option<&[f64]>,
        over: MeasuredOver,
    ) {
        let rows = run.rows();
        let mut next = rows.start;
        while next < rows.end {
            next = self.put_within(row, metric, run, values, over, next);
            if next == rows.end {
                break;
            }
            // This record reaches into another column, or has no value.
            let (data_ns, blocked_ns) = run.lengths_ns(next);
            let interval_ns = interval_of_slot(run.ts(next), run.slot(next), data_ns, blocked_ns);
            self.fit(interval_ns);
            let slot_ns = slot_of_columns(run.ts(next), run.slot(next), data_ns, blocked_ns);
            let value = values
                .map(|values| values[next])
                .filter(|value| value.is_finite())
                .zip(run.time(next, over));
            if let Some((value, time)) = value {
                self.put_slots(row, metric, slot_ns, time, State::Value(value));
            } else {
                let state = State::without_value(run.port());
                if let Some(time) = run
                    .time(next, MeasuredOver::Data)
                    .or_else(|| silent_time(self.rows[row].last_ts, run.ts(next), interval_ns))
                {
                    self.put_slots(row, metric, slot_ns, time, state);
                }
            }
            self.rows[row].last_ts = Some(run.ts(next));
            next += 1;
        }
    }

    /// Adds the values of consecutive records as long as their times lie in the column of the
    /// record before. Returns the first record that was not added.
    fn put_within(
        &mut self,
        row: usize,
        metric: usize,
        run: &Run<'_>,
        values: Option<&[f64]>,
        over: MeasuredOver,
        first: usize,
    ) -> usize {
        let (Some(values), Some(last_ts), Some((first_column, last_column))) =
            (values, self.rows[row].last_ts, self.span)
        else {
            return first;
        };
        let step_ns = self.step_ns();
        let column = last_ts.saturating_sub(1) / step_ns;
        if !(first_column..=last_column).contains(&column) {
            return first;
        }
        let (start, end) = (column * step_ns, (column * step_ns).saturating_add(step_ns));
        let cell = self.rows[row].tracks[metric].at(column);
        let (mut next, mut ts) = (first, last_ts);
        let (mut from, mut to) = (u64::MAX, 0);
        let end_of_run = run.rows().end.min(values.len());
        let (data_ns, blocked_ns) = run.lengths_ns(first);
        let slot_ns = slot_of_columns(run.ts(first), run.slot(first), data_ns, blocked_ns);
        if slot_ns.is_some_and(|slot_ns| slot_ns > step_ns) {
            return first;
        }
        let mut slots = WholeSlots::new(slot_ns);
        for (place, value) in values
            .iter()
            .copied()
            .enumerate()
            .take(end_of_run)
            .skip(first)
        {
            let now = run.ts(place);
            let Some(time) = run.time(place, over) else {
                break;
            };
            let slot = run.slot(place);
            // The length of slots has changed, or a slot is longer than a column, so that the
            // columns must become longer.
            let is_other = match slot_ns {
                Some(slot_ns) => now.abs_diff(slot.saturating_mul(slot_ns)) >= 2 * slot_ns,
                None => now >= step_ns.saturating_mul(slot),
            };
            if !value.is_finite() || is_other {
                break;
            }
            if let Some(time) = slots.of(time) {
                if time.from() < start || time.to() > end {
                    break;
                }
                cell.put(State::Value(value), time, time.length_ns());
                (from, to) = (from.min(time.from()), to.max(time.to()));
            }
            (next, ts) = (place + 1, now);
        }
        if next > first {
            self.rows[row].last_ts = Some(ts);
            if from < to {
                let (least, most) = self.recorded.unwrap_or((from, to));
                self.recorded = Some((least.min(from), most.max(to)));
            }
        }
        next
    }
}
