//! One column of a chunk: the values of one field in consecutive records, as bytes.
//!
//! A value is stored as its difference from a *prediction*: the previous value or, for a column
//! that grows evenly, the previous value plus the previous difference. A run of correct
//! predictions, or of missing values, takes a few bytes, so a counter that does not change costs
//! almost nothing. The bytes are LEB128 numbers, seven bits in each byte:
//!
//! | number | meaning |
//! |---|---|
//! | 0, then *n* | the prediction is right for *n* + 1 records |
//! | 1, then *n* | the value is missing in *n* + 1 records |
//! | *z* + 1 | the value is the prediction plus a difference, whose zigzag code is *z* |
//!
//! The last run of correct predictions is not written, so a counter that is always 0 takes one byte.

/// Rule that predicts the next value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Order {
    /// The value does not change.
    #[default]
    Same,
    /// The value grows as much as before.
    Even,
}

/// The last values of a column.
#[derive(Clone, Copy, Debug, Default)]
struct Prediction {
    last: u64,
    grown: u64,
}

impl Prediction {
    const fn next(self, order: Order) -> u64 {
        match order {
            Order::Same => self.last,
            Order::Even => self.last.wrapping_add(self.grown),
        }
    }

    const fn learn(&mut self, value: u64) {
        self.grown = value.wrapping_sub(self.last);
        self.last = value;
    }
}

/// The current run, which is not written yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Run {
    #[default]
    None,
    Predicted(u32),
    Missing(u32),
}

/// A column to which values are appended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Column {
    order: Order,
    prediction: Prediction,
    run: Run,
    rows: u32,
    octets: Vec<u8>,
}

impl Column {
    /// Creates a column whose values are missing in the first `rows` records.
    pub(crate) fn new(order: Order, rows: u32) -> Self {
        Self {
            order,
            run: if rows == 0 {
                Run::None
            } else {
                Run::Missing(rows)
            },
            rows,
            ..Self::default()
        }
    }

    pub(crate) const fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the size on the heap in bytes.
    pub(crate) fn octets(&self) -> usize {
        self.octets.capacity()
    }

    pub(crate) fn push(&mut self, value: Option<u64>) {
        self.rows += 1;
        let Some(value) = value else {
            match &mut self.run {
                Run::Missing(count) => *count += 1,
                _ => {
                    self.end_run();
                    self.run = Run::Missing(1);
                }
            }
            return;
        };
        let expected = self.prediction.next(self.order);
        self.prediction.learn(value);
        if value == expected {
            match &mut self.run {
                Run::Predicted(count) => *count += 1,
                _ => {
                    self.end_run();
                    self.run = Run::Predicted(1);
                }
            }
            return;
        }
        self.end_run();
        let difference = value.wrapping_sub(expected).cast_signed();
        let zigzag = ((difference << 1) ^ (difference >> 63)).cast_unsigned();
        put(&mut self.octets, u128::from(zigzag) + 1);
    }

    fn end_run(&mut self) {
        put_run(std::mem::take(&mut self.run), &mut self.octets);
    }

    /// Appends the length of the column and its bytes.
    pub(crate) fn write(&self, to: &mut Vec<u8>) {
        let run = match self.run {
            Run::Predicted(_) => Run::None,
            run => run,
        };
        // The length of the last run is known when it has been written.
        let start = to.len();
        put_run(run, to);
        let end = to.len() - start;
        to.truncate(start);
        put(to, (self.octets.len() + end) as u128);
        to.extend_from_slice(&self.octets);
        put_run(run, to);
    }

    /// Removes all records, but keeps the memory.
    pub(crate) fn clear(&mut self) {
        let octets = std::mem::take(&mut self.octets);
        *self = Self {
            order: self.order,
            octets,
            ..Self::default()
        };
        self.octets.clear();
    }
}

fn put_run(run: Run, to: &mut Vec<u8>) {
    let (token, count) = match run {
        Run::None => return,
        Run::Predicted(count) => (0, count),
        Run::Missing(count) => (1, count),
    };
    to.push(token);
    put(to, u128::from(count - 1));
}

fn put(to: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        to.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Reads a number. A cut number ends where the bytes end.
fn get(octets: &[u8], at: &mut usize) -> u128 {
    // Most numbers are small.
    if let Some(octet) = octets.get(*at).filter(|octet| **octet < 0x80) {
        *at += 1;
        return u128::from(*octet);
    }
    let (mut number, mut shift) = (0_u128, 0);
    while let Some(octet) = octets.get(*at) {
        *at += 1;
        number |= u128::from(octet & 0x7f) << shift;
        shift += 7;
        if octet & 0x80 == 0 || shift > 70 {
            break;
        }
    }
    number
}

/// The written columns of a chunk, in their order.
pub(crate) struct Columns<'a> {
    octets: &'a [u8],
    at: usize,
}

impl<'a> Columns<'a> {
    pub(crate) const fn new(octets: &'a [u8]) -> Self {
        Self { octets, at: 0 }
    }

    pub(crate) fn next_column(&mut self) -> &'a [u8] {
        let length = get(self.octets, &mut self.at) as usize;
        let start = self.at.min(self.octets.len());
        self.at = start.saturating_add(length).min(self.octets.len());
        &self.octets[start..self.at]
    }
}

/// Reads the values of a written column. The last prediction is right forever, so the caller takes
/// only as many values as the chunk has records.
pub(crate) struct Values<'a> {
    octets: &'a [u8],
    at: usize,
    order: Order,
    prediction: Prediction,
    run: Run,
}

impl<'a> Values<'a> {
    pub(crate) const fn new(octets: &'a [u8], order: Order) -> Self {
        Self {
            octets,
            at: 0,
            order,
            prediction: Prediction { last: 0, grown: 0 },
            run: Run::None,
        }
    }

    pub(crate) fn next_value(&mut self) -> Option<u64> {
        loop {
            match &mut self.run {
                Run::Predicted(count) if *count > 0 => {
                    *count -= 1;
                    let value = self.prediction.next(self.order);
                    self.prediction.learn(value);
                    return Some(value);
                }
                Run::Missing(count) if *count > 0 => {
                    *count -= 1;
                    return None;
                }
                _ => {}
            }
            if self.at >= self.octets.len() {
                self.run = Run::Predicted(u32::MAX);
                continue;
            }
            match get(self.octets, &mut self.at) {
                0 => self.run = Run::Predicted(self.count()),
                1 => self.run = Run::Missing(self.count()),
                number => {
                    self.run = Run::None;
                    let zigzag = (number - 1) as u64;
                    let difference = (zigzag >> 1) ^ (zigzag & 1).wrapping_neg();
                    let value = self.prediction.next(self.order).wrapping_add(difference);
                    self.prediction.learn(value);
                    return Some(value);
                }
            }
        }
    }

    fn count(&mut self) -> u32 {
        u32::try_from(get(self.octets, &mut self.at) + 1).unwrap_or(u32::MAX)
    }
}

/// Records have numbers with six decimals.
const MICRO: f64 = 1e6;

/// Returns the number that stands for a rate or a share in a column. Values with six decimals, as
/// the sampler writes them, become small numbers; all others keep every bit.
pub(crate) fn code_of(value: f64) -> u64 {
    // The parser of the records accepts no negative value except minus zero, which becomes zero.
    let value = if value > 0.0 { value } else { 0.0 };
    let micro = (value * MICRO).round();
    if micro < (1_u64 << 52) as f64 && micro / MICRO == value {
        (micro as u64) << 1
    } else {
        value.to_bits() << 1 | 1
    }
}

/// Returns the value that a number stands for.
pub(crate) fn value_of(code: u64) -> f64 {
    if code & 1 == 0 {
        (code >> 1) as f64 / MICRO
    } else {
        f64::from_bits(code >> 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn round_trip(order: Order, skipped: u32, values: &[Option<u64>]) -> (Vec<Option<u64>>, usize) {
        let mut column = Column::new(order, skipped);
        values.iter().for_each(|value| column.push(*value));
        assert_eq!(column.rows() as usize, skipped as usize + values.len());
        let mut octets = Vec::new();
        column.write(&mut octets);
        let mut columns = Columns::new(&octets);
        let mut read = Values::new(columns.next_column(), order);
        let all = (0..column.rows()).map(|_| read.next_value()).collect();
        (all, octets.len())
    }

    #[test]
    fn constant_and_even_columns_take_a_few_octets() {
        let constant: Vec<_> = (0..1000).map(|_| Some(u64::MAX)).collect();
        assert!(round_trip(Order::Same, 0, &constant).1 < 10);
        assert_eq!(round_trip(Order::Same, 0, &[Some(0); 60]).1, 1);
        let even: Vec<_> = (0..1000).map(|slot| Some(1_700_000_000 + slot)).collect();
        assert!(round_trip(Order::Even, 0, &even).1 < 16);
        assert_eq!(round_trip(Order::Even, 0, &even).0, even);
    }

    proptest! {
        #[test]
        fn values_are_read_as_they_were_added(
            even in any::<bool>(),
            skipped in 0_u32..3,
            values in prop::collection::vec(prop_oneof![
                Just(None), Just(Some(0)), Just(Some(7)), Just(Some(u64::MAX)), Just(Some(1 << 63)), any::<u64>().prop_map(Some),
            ], 0..80),
        ) {
            let order = if even { Order::Even } else { Order::Same };
            let expected: Vec<_> = (0..skipped).map(|_| None).chain(values.iter().copied()).collect();
            prop_assert_eq!(round_trip(order, skipped, &values).0, expected);
        }

        #[test]
        fn damaged_octets_are_read_without_a_panic(octets in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut columns = Columns::new(&octets);
            let mut values = Values::new(columns.next_column(), Order::Even);
            for _ in 0..100 {
                values.next_value();
            }
        }

        #[test]
        fn rates_keep_all_their_bits(micro in 0_u64..10_000_000_000, other in 0.0..10_000.0_f64) {
            for value in [micro as f64 / 1e6, other] {
                prop_assert_eq!(value_of(code_of(value)).to_bits(), value.to_bits());
            }
        }
    }
}
