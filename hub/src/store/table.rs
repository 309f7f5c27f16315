//! A table to which rows are appended, and its compact form.

use std::sync::Arc;

use super::column::{Column, Columns, Order, Values};

/// Identifier of a column.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Key(u32);

impl Key {
    /// Element of a counter that is not an array.
    const SINGLE: u16 = u16::MAX;

    /// Returns the key of a field that every record has.
    pub(crate) const fn field(number: u16) -> Self {
        Self(number as u32)
    }

    /// Returns the key of a counter by the id of its name. `element` is the index in an array
    /// of counters.
    pub(crate) fn counter(name: u16, element: Option<u16>) -> Self {
        Self((u32::from(name) + 1) << 16 | u32::from(element.unwrap_or(Self::SINGLE)))
    }

    /// Returns the name id and the element of a counter, or `None` for a field.
    pub(crate) fn as_counter(self) -> Option<(u16, Option<u16>)> {
        let name = u16::try_from((self.0 >> 16).checked_sub(1)?).ok()?;
        let element = (self.0 & 0xffff) as u16;
        Some((name, (element != Self::SINGLE).then_some(element)))
    }
}

/// A table to which rows are appended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    keys: Vec<Key>,
    columns: Vec<Column>,
    rows: u32,
    /// Keys of the last compact form. Compact tables with equal keys share one list.
    shared: Option<Arc<[Key]>>,
}

/// The compact form of a table.
#[derive(Clone, Debug)]
pub(crate) struct Packed {
    keys: Arc<[Key]>,
    pub(crate) rows: u32,
    octets: Box<[u8]>,
}

impl Table {
    /// Returns the number of complete rows.
    pub(crate) const fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the size on the heap in bytes.
    pub(crate) fn octets(&self) -> usize {
        self.columns.capacity() * size_of::<Column>()
            + self.keys.capacity() * size_of::<Key>()
            + self.columns.iter().map(Column::octets).sum::<usize>()
    }

    /// Adds a value to the current row. `hint` is the expected index of the column. Returns its
    /// actual index.
    pub(crate) fn put(&mut self, hint: usize, key: Key, order: Order, value: Option<u64>) -> usize {
        let place = if self.keys.get(hint) == Some(&key) {
            Some(hint)
        } else {
            self.keys.iter().position(|known| *known == key)
        };
        let place = place.unwrap_or_else(|| {
            self.keys.push(key);
            self.columns.push(Column::new(order, self.rows));
            self.keys.len() - 1
        });
        let column = &mut self.columns[place];
        // A field that occurs twice in a line counts once.
        if column.rows() == self.rows {
            column.push(value);
        }
        place
    }

    pub(crate) fn key(&self, place: usize) -> Option<Key> {
        self.keys.get(place).copied()
    }

    /// Ends the current row. Columns that got no value in this row get a missing value.
    pub(crate) fn end_row(&mut self) {
        self.rows += 1;
        // The list of columns grows with the first rows only, to up to twice what it needs.
        if self.columns.capacity() > self.columns.len() {
            self.columns.shrink_to_fit();
            self.keys.shrink_to_fit();
        }
        for column in &mut self.columns {
            if column.rows() < self.rows {
                column.push(None);
            }
        }
    }

    pub(crate) fn pack(&self) -> Packed {
        let keys = match &self.shared {
            Some(shared) if **shared == *self.keys => Arc::clone(shared),
            _ => Arc::from(&*self.keys),
        };
        let mut octets = Vec::new();
        self.columns
            .iter()
            .for_each(|column| column.write(&mut octets));
        Packed {
            keys,
            rows: self.rows,
            octets: octets.into(),
        }
    }

    /// Returns the compact form and removes all rows, but keeps the columns and their memory.
    pub(crate) fn close(&mut self) -> Packed {
        let packed = self.pack();
        self.shared = Some(Arc::clone(&packed.keys));
        self.rows = 0;
        self.columns.iter_mut().for_each(Column::clear);
        packed
    }
}

impl Packed {
    /// Returns the size on the heap in bytes.
    pub(crate) fn octets(&self) -> usize {
        self.octets.len()
    }

    /// Returns the columns that `wanted` accepts, with their keys.
    pub(crate) fn columns(
        &self,
        order: impl Fn(Key) -> Order,
        mut wanted: impl FnMut(Key) -> bool,
    ) -> Vec<(Key, Values<'_>)> {
        let mut columns = Columns::new(&self.octets);
        let all = self.keys.iter().map(|key| (*key, columns.next_column()));
        all.filter(|(key, _)| wanted(*key))
            .map(|(key, octets)| (key, Values::new(octets, order(key))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_counters_are_read_back() {
        for (name, element) in [(0, None), (0, Some(0)), (65_534, Some(65_534))] {
            assert_eq!(
                Key::counter(name, element).as_counter(),
                Some((name, element))
            );
        }
        assert_eq!(Key::field(31).as_counter(), None);
    }

    #[test]
    fn missing_columns_have_missing_values() {
        let (a, b) = (Key::field(1), Key::counter(3, None));
        let mut table = Table::default();
        table.put(0, a, Order::Same, Some(5));
        table.end_row();
        table.put(0, a, Order::Same, Some(6));
        table.put(1, b, Order::Same, Some(7));
        table.put(1, b, Order::Same, Some(8));
        table.end_row();
        table.put(9, b, Order::Same, Some(9));
        table.end_row();
        let packed = table.pack();
        let mut columns = packed.columns(|_| Order::Same, |_| true);
        let read: Vec<Vec<_>> = columns
            .iter_mut()
            .map(|(_, values)| (0..packed.rows).map(|_| values.next_value()).collect())
            .collect();
        assert_eq!(read, [[Some(5), Some(6), None], [None, Some(7), Some(9)]]);
        assert_eq!(packed.columns(|_| Order::Same, |key| key == b).len(), 1);
        assert_eq!(
            (table.close().rows, table.rows(), table.pack().rows),
            (3, 0, 0)
        );
    }
}
