//! The values of one column in memory, in a form that depends on their type.

use rustc_hash::FxHashMap;

use crate::ids::Ids;
use crate::schema::Kind;

/// Values of a column, one for each row. A row may have no value.
#[derive(Clone, Debug)]
pub enum Column {
    /// Integers. Signed integers are stored as their two's complement.
    Integer(Integers),
    /// Floating-point numbers. A NaN means "no value", because JSON has no NaN.
    Float(Vec<f64>),
    /// Strings, and lists of strings as JSON.
    Text(Texts),
    /// Lists of integers.
    List(Lists),
}

/// Integers. While all rows are equal, they take no memory.
#[derive(Clone, Debug)]
pub enum Integers {
    /// All rows have the same value.
    Same {
        /// The value.
        value: Option<u64>,
        /// Number of rows.
        rows: usize,
    },
    /// The rows have different values.
    Each {
        /// A value for each row; 0 for a row without a value.
        values: Vec<u64>,
        /// One bit for each row that has a value. `None`: every row has one.
        present: Option<Bits>,
    },
}

/// One bit for each row.
#[derive(Clone, Debug, Default)]
pub struct Bits(Vec<u64>);

/// Strings, stored as ids of a dictionary.
#[derive(Clone, Debug, Default)]
pub struct Texts {
    /// The id of each row's string, or [`Texts::NONE`].
    pub ids: Ids,
    by_text: FxHashMap<Box<str>, u32>,
    list: Vec<Box<str>>,
}

/// Lists of integers.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// End of each row's list in `values`.
    ends: Vec<u32>,
    present: Bits,
    values: Vec<u64>,
}

impl Bits {
    fn get(&self, row: usize) -> bool {
        self.0
            .get(row / 64)
            .is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    fn set(&mut self, row: usize, value: bool) {
        if row / 64 >= self.0.len() {
            self.0.resize(row / 64 + 1, 0);
        }
        let bit = 1 << (row % 64);
        if value {
            self.0[row / 64] |= bit;
        } else {
            self.0[row / 64] &= !bit;
        }
    }

    /// Appends bits for `rows`, which must start at the current number of rows.
    pub(crate) fn extend(&mut self, rows: std::ops::Range<usize>, value: bool) {
        self.0.resize(rows.end.div_ceil(64), 0);
        if value {
            rows.for_each(|row| self.0[row / 64] |= 1 << (row % 64));
        }
    }

    fn ones(rows: usize) -> Self {
        let mut words = vec![u64::MAX; rows / 64];
        if !rows.is_multiple_of(64) {
            words.push((1 << (rows % 64)) - 1);
        }
        Self(words)
    }
}

impl Integers {
    /// Returns the value of a row.
    pub fn get(&self, row: usize) -> Option<u64> {
        match self {
            Self::Same { value, .. } => *value,
            Self::Each { values, present } => present
                .as_ref()
                .is_none_or(|bits| bits.get(row))
                .then(|| values[row]),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Same { rows, .. } => *rows,
            Self::Each { values, .. } => values.len(),
        }
    }

    pub(crate) fn push(&mut self, value: Option<u64>) {
        match self {
            Self::Same { value: same, rows } if *same == value || *rows == 0 => {
                (*same, *rows) = (value, *rows + 1);
            }
            Self::Same { value: same, rows } => {
                let mut values = Vec::with_capacity((*rows + 1).next_power_of_two());
                values.resize(*rows, same.unwrap_or(0));
                let present = match same {
                    Some(_) => None,
                    None => Some(Bits::default()),
                };
                *self = Self::Each { values, present };
                self.push(value);
            }
            Self::Each { values, present } => {
                if value.is_none() && present.is_none() {
                    *present = Some(Bits::ones(values.len()));
                }
                if let Some(present) = present {
                    present.set(values.len(), value.is_some());
                }
                values.push(value.unwrap_or(0));
            }
        }
    }

    fn pop(&mut self) {
        match self {
            Self::Same { rows, .. } => *rows -= 1,
            Self::Each { values, .. } => drop(values.pop()),
        }
    }
}

impl Texts {
    /// Id of a row without a string.
    pub const NONE: u32 = u32::MAX;

    /// Returns the id of a string, and adds the string if it is new.
    pub fn intern(&mut self, text: &str) -> u32 {
        if let Some(id) = self.by_text.get(text) {
            return *id;
        }
        let id = self.list.len() as u32;
        self.list.push(text.into());
        self.by_text.insert(text.into(), id);
        id
    }

    /// Returns the string of a row.
    pub fn get(&self, row: usize) -> Option<&str> {
        self.text(self.ids.get(row)?)
    }

    /// Returns the string of an id.
    pub fn text(&self, id: u32) -> Option<&str> {
        self.list.get(id as usize).map(|text| &**text)
    }

    /// Returns all strings in the order of their ids.
    pub fn list(&self) -> &[Box<str>] {
        &self.list
    }

    pub(crate) fn push(&mut self, text: Option<&str>) {
        let id = text.map_or(Self::NONE, |text| self.intern(text));
        self.ids.push(id);
    }
}

impl Lists {
    /// Returns the list of a row.
    pub fn get(&self, row: usize) -> Option<&[u64]> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        self.present
            .get(row)
            .then(|| &self.values[start as usize..self.ends[row] as usize])
    }

    pub(crate) fn push(&mut self, list: Option<&[u64]>) {
        self.present.set(self.ends.len(), list.is_some());
        self.values.extend_from_slice(list.unwrap_or_default());
        self.ends.push(self.values.len() as u32);
    }
}

impl Column {
    /// Creates an empty column.
    pub fn new(kind: Kind) -> Self {
        match kind {
            Kind::Unsigned(_) | Kind::Signed(_) => Self::Integer(Integers::Same {
                value: None,
                rows: 0,
            }),
            Kind::Decimal => Self::Float(Vec::new()),
            Kind::Text | Kind::Texts => Self::Text(Texts::default()),
            Kind::Integers => Self::List(Lists::default()),
        }
    }

    /// Returns the number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Integer(integers) => integers.len(),
            Self::Float(values) => values.len(),
            Self::Text(texts) => texts.ids.len(),
            Self::List(lists) => lists.ends.len(),
        }
    }

    /// Returns whether the column has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether no row has a value. Returns false if that would take a search.
    pub fn is_blank(&self) -> bool {
        match self {
            Self::Integer(integers) => matches!(integers, Integers::Same { value: None, .. }),
            Self::Float(values) => values.is_empty(),
            Self::Text(texts) => texts.list.is_empty(),
            Self::List(lists) => {
                lists.values.is_empty() && lists.present.0.iter().all(|word| *word == 0)
            }
        }
    }

    /// Appends rows without a value until there are `rows` rows.
    pub fn fill(&mut self, rows: usize) {
        match self {
            Self::Integer(Integers::Same {
                value: None,
                rows: own,
            }) => *own = (*own).max(rows),
            Self::Integer(integers) => (integers.len()..rows).for_each(|_| integers.push(None)),
            Self::Float(values) => values.resize(values.len().max(rows), f64::NAN),
            Self::Text(texts) => texts.ids.fill(Texts::NONE, rows),
            Self::List(lists) => (lists.ends.len()..rows).for_each(|_| lists.push(None)),
        }
    }

    pub(crate) fn is_equal(&self, a: usize, b: usize) -> bool {
        match self {
            Self::Integer(integers) => integers.get(a) == integers.get(b),
            Self::Float(values) => {
                let value = |row: usize| {
                    values
                        .get(row)
                        .filter(|value| !value.is_nan())
                        .map(|value| value.to_bits())
                };
                value(a) == value(b)
            }
            Self::Text(texts) => texts.ids.get(a) == texts.ids.get(b),
            Self::List(lists) => lists.get(a) == lists.get(b),
        }
    }

    pub(crate) fn pop(&mut self) {
        match self {
            Self::Integer(integers) => integers.pop(),
            Self::Float(values) => drop(values.pop()),
            Self::Text(texts) => texts.ids.pop(),
            Self::List(lists) => {
                lists.ends.pop();
                lists
                    .values
                    .truncate(lists.ends.last().map_or(0, |end| *end as usize));
            }
        }
    }

    /// Appends rows of another column of the same type.
    pub(crate) fn append(&mut self, other: &Self, rows: &[u32]) {
        match (self, other) {
            (Self::Integer(own), Self::Integer(other)) => own.append(other, rows),
            (Self::Float(own), Self::Float(other)) => {
                own.extend(rows.iter().map(|row| other[*row as usize]));
            }
            (Self::Text(own), Self::Text(other)) => {
                let mut ids = vec![Texts::NONE; other.list.len()];
                let all = other.ids.all();
                for row in rows {
                    let id = all[*row as usize];
                    let Some(known) = ids.get_mut(id as usize) else {
                        own.ids.push(Texts::NONE);
                        continue;
                    };
                    if *known == Texts::NONE {
                        *known = own.intern(&other.list[id as usize]);
                    }
                    own.ids.push(*known);
                }
            }
            (Self::List(own), Self::List(other)) => rows
                .iter()
                .for_each(|row| own.push(other.get(*row as usize))),
            _ => {}
        }
    }

    /// Adds the hash of each row's value to `sums`. `seed` differs from column to column. A row
    /// without a value adds nothing.
    pub(crate) fn add_hashes(&self, seed: u64, sums: &mut [u64]) {
        match self {
            Self::Integer(Integers::Same { value: None, .. }) => {}
            Self::Integer(integers) => {
                for (row, sum) in sums.iter_mut().enumerate() {
                    if let Some(value) = integers.get(row) {
                        *sum = sum.wrapping_add(mix(seed ^ value));
                    }
                }
            }
            Self::Float(values) => {
                for (sum, value) in sums
                    .iter_mut()
                    .zip(values)
                    .filter(|(_, value)| !value.is_nan())
                {
                    *sum = sum.wrapping_add(mix(seed ^ value.to_bits()));
                }
            }
            Self::Text(texts) => {
                let hashes: Vec<u64> = texts
                    .list
                    .iter()
                    .map(|text| mix(seed ^ hash(text.as_bytes())))
                    .collect();
                for (rows, id) in texts.ids.runs() {
                    let hash = hashes.get(id as usize).copied().unwrap_or(0);
                    sums[rows]
                        .iter_mut()
                        .for_each(|sum| *sum = sum.wrapping_add(hash));
                }
            }
            Self::List(lists) => {
                for (row, sum) in sums.iter_mut().enumerate() {
                    if let Some(list) = lists.get(row) {
                        let folded = list
                            .iter()
                            .fold(list.len() as u64 + 1, |hash, value| mix(hash ^ value));
                        *sum = sum.wrapping_add(mix(seed ^ folded));
                    }
                }
            }
        }
    }
}

impl Integers {
    fn append(&mut self, other: &Self, rows: &[u32]) {
        match (&mut *self, other) {
            (Self::Same { value, rows: own }, Self::Same { value: added, .. })
                if value == added || *own == 0 =>
            {
                (*value, *own) = (*added, *own + rows.len());
            }
            (
                Self::Each {
                    values,
                    present: None,
                },
                Self::Each {
                    values: added,
                    present: None,
                },
            ) => {
                values.extend(rows.iter().map(|row| added[*row as usize]));
            }
            _ => rows
                .iter()
                .for_each(|row| self.push(other.get(*row as usize))),
        }
    }
}

/// Converts a value to millionths. Returns `None` if the value is not a whole number of millionths,
/// or has too many digits.
pub(crate) fn millionths(value: f64) -> Option<i64> {
    // A 64-bit float represents every integer up to this size exactly.
    const MAX: f64 = 9e15;
    let number = (value * 1e6).round();
    let is_exact = number.abs() < MAX
        && (number != 0.0 || value.is_sign_positive())
        && of_millionths(number as i64) == value;
    is_exact.then_some(number as i64)
}

/// Converts millionths to a value.
pub(crate) fn of_millionths(number: i64) -> f64 {
    number as f64 / 1e6
}

/// Mixes the bits of a number (finalizer of MurmurHash3).
pub(crate) const fn mix(mut bits: u64) -> u64 {
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xff51_afd7_ed55_8ccd);
    bits ^= bits >> 33;
    bits = bits.wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    bits ^ bits >> 33
}

/// Returns a hash that does not depend on the version of the program, and is equal on all machines
/// with the same byte order.
pub(crate) fn hash(octets: &[u8]) -> u64 {
    let mut sum = octets.len() as u64;
    for chunk in octets.chunks(8) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = mix(sum ^ u64::from_le_bytes(word)).wrapping_add(sum.rotate_left(5));
    }
    sum
}
