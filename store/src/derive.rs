//! Tables that are computed from the rows of an hour of the table `ports`.

use ibnet_record::minute::{MINUTE_NS, Mean, in_minutes};
use ibnet_record::slots::counted_interval;
use ibnet_record::{Change, Interval, PortField, Status};

use crate::column::{Column, Integers, of_millionths};
use crate::schema::{COUNTERS, MINUTE_RATES, TableName};
use crate::table::Table;

/// Returns the rows of a derived table. `order` are rows of `ports` in the order of the archive.
pub fn derived(name: TableName, ports: &Table, order: &[u32]) -> Table {
    match name {
        TableName::PortsMinute => minutes(ports, order),
        _ => copied(name, ports, &changes(ports, order)),
    }
}

/// Returns rows of `ports` with the columns that the other table has.
fn copied(name: TableName, ports: &Table, rows: &[u32]) -> Table {
    let mut table = Table::new(name);
    for (spec, column) in ports.schema().columns.iter().zip(&ports.columns) {
        if let Some(index) = name.schema().index(spec.name) {
            table.columns[index].append(column, rows);
        }
    }
    table.rows = rows.len();
    table.seal();
    table
}

/// Returns the first row of each port and sampler, and each row whose identity or link differs from
/// the row before.
fn changes(ports: &Table, order: &[u32]) -> Vec<u32> {
    let number = |field: PortField| {
        let (integers, texts) = (ports.integers(field.name()), ports.texts(field.name()));
        move |row: u32| match (integers, texts) {
            (Some(integers), _) => integers.get(row as usize),
            (_, Some(texts)) => texts.ids.get(row as usize).map(u64::from),
            _ => None,
        }
    };
    let key = [PortField::guid, PortField::port, PortField::sampler];
    let link = PortField::fixed().filter(|field| field.change() == Change::Link);
    let numbers: Vec<_> = key.into_iter().chain(link).map(number).collect();
    let is_change =
        |row: u32, before: u32| numbers.iter().any(|number| number(row) != number(before));
    let is_kept = |place: &usize| {
        place
            .checked_sub(1)
            .is_none_or(|before| is_change(order[*place], order[before]))
    };
    (0..order.len())
        .filter(is_kept)
        .map(|place| order[place])
        .collect()
}

/// What the records of a row have in common. Consecutive records with one key are one row.
#[derive(Clone, Copy, PartialEq)]
struct RowKey {
    /// Time between two slots, if a minute consists of whole slots.
    slot_ns: Option<u64>,
    /// The minute of the last slot that the record describes.
    minute: u64,
    /// The row of a record that describes slots of several minutes. Each of them has a share of it,
    /// so it is joined with no other record.
    alone: Option<u32>,
}

/// A record with its times as they count in minutes.
struct Counted {
    key: RowKey,
    data: Described,
    blocked: Described,
}

/// The time that a record describes.
#[derive(Clone, Copy)]
struct Described {
    length_ns: Option<u64>,
    /// The time as it counts in minutes.
    time: Option<Interval>,
}

impl Counted {
    fn new(row: u32, ts: u64, slot: u64, dt_ns: Option<u64>, blocked_ns: Option<u64>) -> Self {
        let slot_ns = counted_interval(ts, slot, dt_ns, blocked_ns)
            .filter(|slot_ns| MINUTE_NS.is_multiple_of(*slot_ns));
        let counted = |length_ns| {
            Interval::ending_at(ts, length_ns).and_then(|time| in_minutes(time, slot_ns))
        };
        let described = |length_ns| Described {
            length_ns,
            time: counted(length_ns),
        };
        let (data, blocked) = (described(dt_ns), described(blocked_ns.or(dt_ns)));
        let before = counted(slot_ns.or(Some(1)));
        let minute = before.map_or(0, |before| before.from() / MINUTE_NS);
        let is_longer = |time: Interval| time.from() / MINUTE_NS < minute;
        let is_alone = [data, blocked]
            .iter()
            .any(|described| described.time.is_some_and(is_longer));
        Self {
            key: RowKey {
                slot_ns,
                minute,
                alone: is_alone.then_some(row),
            },
            data,
            blocked,
        }
    }
}

/// Sums of the times of several records.
#[derive(Clone, Copy, Default)]
struct Length {
    ns: u64,
    /// The time as it counts in minutes.
    counted_ns: u64,
}

impl Length {
    fn add(&mut self, described: Described) {
        if let Some((length_ns, time)) = described.length_ns.zip(described.time) {
            self.ns += length_ns;
            self.counted_ns += time.length_ns();
        }
    }

    /// Returns the length of the time before `ts` that has as many slots as the records. Without
    /// slots, returns the sum. It differs from the sum only by the jitter of the readings, and only
    /// if there is a gap between two records.
    fn before(self, ts: u64, slot_ns: Option<u64>) -> Option<u64> {
        let longest = |slot_ns: u64| self.counted_ns + ts % slot_ns;
        (self.counted_ns > 0).then(|| match slot_ns {
            Some(slot_ns) => self
                .ns
                .clamp(longest(slot_ns) - slot_ns + 1, longest(slot_ns)),
            None => self.ns,
        })
    }
}

/// Values of one minute.
#[derive(Default)]
struct Minute {
    rates: [(Mean, Vec<f64>); MINUTE_RATES.len()],
    rtts: Vec<u64>,
    data: Length,
    blocked: Length,
    records: u64,
    answered: u64,
    /// The last answer, or the last record without an answer.
    last: u32,
}

/// Index of the blocked share in [`MINUTE_RATES`].
const BLOCKED: usize = MINUTE_RATES.len() - 1;

/// The computed columns.
#[derive(Default)]
struct Computed {
    chosen: Vec<u32>,
    /// Ends of the minutes among the rows in the order of the archive.
    ends: Vec<usize>,
    records: Vec<u64>,
    answered: Vec<u64>,
    data_ns: Vec<Option<u64>>,
    blocked_ns: Vec<Option<u64>>,
    /// Mean, largest value and 95th percentile of each rate.
    rates: [[Vec<f64>; 3]; MINUTE_RATES.len()],
    rtts: [Vec<Option<u64>>; 3],
}

fn minutes(ports: &Table, order: &[u32]) -> Table {
    let id = |name: &str| {
        let texts = ports.texts(name);
        move |row: u32| texts.and_then(|texts| texts.ids.get(row as usize))
    };
    let integer = |name: &str| {
        let integers = ports.integers(name);
        move |row: u32| integers.and_then(|integers| integers.get(row as usize))
    };
    let (guid, sampler, port) = (id("guid"), id("sampler"), integer("port"));
    let is_answer: Vec<bool> = ports.texts("status").map_or_else(Vec::new, |texts| {
        texts
            .list()
            .iter()
            .map(|status| Status::named(status).is_some_and(Status::is_answered))
            .collect()
    });
    let (status, mads, rtt, slot, dt_ns, blocked_ns) = (
        id("status"),
        integer("mads"),
        integer("rtt_ns"),
        integer("slot"),
        integer("dt_ns"),
        integer("xmit_blocked_dt_ns"),
    );
    let rates = MINUTE_RATES.map(|[name, ..]| ports.floats(name));
    let counted = |row: u32| {
        let ts = ports.ts(row as usize);
        Counted::new(row, ts, slot(row).unwrap_or(0), dt_ns(row), blocked_ns(row))
    };
    let key = |row: u32| (guid(row), port(row), sampler(row));
    let mut computed = Computed::default();
    let mut minute = Minute::default();
    let mut next = order.first().map(|row| counted(*row));
    for (place, row) in order.iter().copied().enumerate() {
        let Some(now) = next else { break };
        let has_answer = status(row).is_some_and(|id| {
            is_answer
                .get(id as usize)
                .is_some_and(|is_answer| *is_answer)
        });
        minute.records += 1;
        minute.answered += u64::from(has_answer);
        if has_answer || minute.answered == 0 {
            minute.last = row;
        }
        if has_answer && mads(row) > Some(0) {
            minute.rtts.extend(rtt(row));
        }
        minute.data.add(now.data);
        for ((index, (mean, values)), rate) in minute.rates.iter_mut().enumerate().zip(rates) {
            let Some(value) = rate
                .map(|values| values[row as usize])
                .filter(|value| !value.is_nan())
            else {
                continue;
            };
            let described = if index == BLOCKED {
                minute.blocked.add(now.blocked);
                now.blocked
            } else {
                now.data
            };
            if let Some(time) = described.time {
                mean.add(time, value, value);
                values.push(value);
            }
        }
        let following = order.get(place + 1).copied();
        next = following.map(counted);
        let is_last = |row_after: u32| {
            key(row_after) != key(row) || next.as_ref().is_none_or(|next| next.key != now.key)
        };
        if following.is_none_or(is_last) {
            computed.ends.push(place + 1);
            let ts = ports.ts(minute.last as usize);
            computed.add(&mut minute, ts, now.key.slot_ns);
        }
    }
    computed.table(ports, order)
}

/// Returns whether a counter has a value.
fn has_value(column: &Column, row: usize) -> bool {
    match column {
        Column::Integer(integers) => integers.get(row).is_some(),
        Column::List(lists) => lists.get(row).is_some(),
        Column::Float(_) | Column::Text(_) => false,
    }
}

impl Computed {
    /// Adds a minute and empties it. `ts` is the time of its row.
    fn add(&mut self, minute: &mut Minute, ts: u64, slot_ns: Option<u64>) {
        self.chosen.push(minute.last);
        self.records.push(minute.records);
        self.answered.push(minute.answered);
        self.data_ns.push(minute.data.before(ts, slot_ns));
        self.blocked_ns.push(minute.blocked.before(ts, slot_ns));
        for (columns, (mean, values)) in self.rates.iter_mut().zip(&mut minute.rates) {
            // The archive stores six decimals.
            let rounded = |mean: f64| of_millionths((mean * 1e6).round() as i64);
            let percentile = place_of_95(values.len());
            let found = [
                mean.mean().map(rounded),
                mean.max(),
                (percentile < values.len())
                    .then(|| *values.select_nth_unstable_by(percentile, f64::total_cmp).1),
            ];
            columns
                .iter_mut()
                .zip(found)
                .for_each(|(column, value)| column.push(value.unwrap_or(f64::NAN)));
            *mean = Mean::default();
            values.clear();
        }
        minute.rtts.sort_unstable();
        let count = minute.rtts.len() as u64;
        let mean = minute
            .rtts
            .iter()
            .sum::<u64>()
            .checked_add(count / 2)
            .and_then(|sum| sum.checked_div(count));
        let found = [
            mean,
            minute.rtts.last().copied(),
            minute.rtts.get(place_of_95(minute.rtts.len())).copied(),
        ];
        self.rtts
            .iter_mut()
            .zip(found)
            .for_each(|(column, value)| column.push(value));
        minute.rtts.clear();
        *minute = Minute {
            rates: std::mem::take(&mut minute.rates),
            rtts: std::mem::take(&mut minute.rtts),
            ..Minute::default()
        };
    }

    /// Returns the last row with a value of a counter for each minute: a group that is not read in
    /// each slot is not in the last record. Without a value, returns the row of the minute.
    fn last_readings(&self, column: &Column, order: &[u32]) -> Vec<u32> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let minutes = starts.zip(&self.ends).zip(&self.chosen);
        let last = minutes.map(|((start, end), chosen)| {
            let mut rows = order[start..*end].iter().rev();
            *rows
                .find(|row| has_value(column, **row as usize))
                .unwrap_or(chosen)
        });
        last.collect()
    }

    fn table(self, ports: &Table, order: &[u32]) -> Table {
        let name = TableName::PortsMinute;
        let mut table = copied(name, ports, &self.chosen);
        let counters = COUNTERS.clone().zip(&ports.columns[COUNTERS.clone()]);
        for (index, column) in counters.filter(|(_, column)| !column.is_blank()) {
            let rows = self.last_readings(column, order);
            if rows != self.chosen {
                let mut read = Table::new(name).columns.swap_remove(index);
                read.append(column, &rows);
                table.columns[index] = read;
            }
        }
        let mut set = |field: &str, column: Column| {
            if let Some(index) = name.schema().index(field) {
                table.columns[index] = column;
            }
        };
        let integers = |values: Vec<Option<u64>>| {
            let mut integers = Integers::Same {
                value: None,
                rows: 0,
            };
            values.into_iter().for_each(|value| integers.push(value));
            Column::Integer(integers)
        };
        let own_rtt = ports.integers("rtt_ns");
        let rtt_or_own = |(rtt, row): (&Option<u64>, &u32)| {
            rtt.or_else(|| own_rtt.and_then(|rtt| rtt.get(*row as usize)))
        };
        set(
            "rtt_ns",
            integers(
                self.rtts[0]
                    .iter()
                    .zip(&self.chosen)
                    .map(rtt_or_own)
                    .collect(),
            ),
        );
        let [_, most, percentile] = self.rtts;
        set("rtt_ns_max", integers(most));
        set("rtt_ns_p95", integers(percentile));
        set(
            "records",
            integers(self.records.into_iter().map(Some).collect()),
        );
        set(
            "answered",
            integers(self.answered.into_iter().map(Some).collect()),
        );
        set("dt_ns", integers(self.data_ns));
        set("xmit_blocked_dt_ns", integers(self.blocked_ns));
        for (names, columns) in MINUTE_RATES.into_iter().zip(self.rates) {
            names
                .into_iter()
                .zip(columns)
                .for_each(|(field, values)| set(field, Column::Float(values)));
        }
        table
    }
}

/// Returns the place of the 95th percentile among sorted values: at least 95 % of them are not
/// larger.
const fn place_of_95(count: usize) -> usize {
    (count * 95).div_ceil(100).wrapping_sub(1)
}
