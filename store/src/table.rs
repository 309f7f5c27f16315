//! Rows of one table in memory, column by column.

use ibnet_record::Presence;
use rayon::prelude::*;

use crate::column::{Column, Integers, Texts, hash, mix};
use crate::schema::{ColumnSpec, Schema, TableName};

/// Rows of a table, as columns.
#[derive(Clone, Debug)]
pub struct Table {
    name: TableName,
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: usize,
}

/// Row count and checksum of a table. Two tables with the same rows in any order have
/// equal checksums.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sum {
    /// Number of rows.
    pub rows: u64,
    /// Sum of the hashes of all rows.
    pub hash: u64,
}

impl std::ops::AddAssign for Sum {
    fn add_assign(&mut self, other: Self) {
        *self = Self {
            rows: self.rows + other.rows,
            hash: self.hash.wrapping_add(other.hash),
        };
    }
}

impl Table {
    /// Creates an empty table.
    pub fn new(name: TableName) -> Self {
        let columns = name
            .schema()
            .columns
            .iter()
            .map(|column| Column::new(column.kind))
            .collect();
        Self {
            name,
            columns,
            rows: 0,
        }
    }

    /// Creates a table from columns, each with the name of its field. The other columns have no
    /// value. Returns `None` if the table has no such column, if a column has another type or
    /// length, or if a column that every row needs is missing.
    pub fn of(name: TableName, columns: Vec<(&str, Column)>) -> Option<Self> {
        let rows = columns.first().map_or(0, |(_, column)| column.len());
        let mut table = Self {
            rows,
            ..Self::new(name)
        };
        for (field, column) in columns {
            let own = &mut table.columns[name.schema().index(field)?];
            if column.len() != rows
                || std::mem::discriminant(own) != std::mem::discriminant(&column)
            {
                return None;
            }
            *own = column;
        }
        let is_complete = |(column, spec): (&Column, &ColumnSpec)| {
            spec.presence != Presence::Required || column.len() == rows
        };
        let all = table
            .columns
            .iter()
            .zip(&name.schema().columns)
            .all(is_complete);
        table.seal();
        all.then_some(table)
    }

    /// Returns the name of the table.
    pub const fn name(&self) -> TableName {
        self.name
    }

    /// Returns the columns of the schema.
    pub fn schema(&self) -> &'static Schema {
        self.name.schema()
    }

    /// Returns the number of rows.
    pub const fn len(&self) -> usize {
        self.rows
    }

    /// Returns whether the table has no rows.
    pub const fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Returns a column by its index in the schema.
    pub fn column(&self, index: usize) -> &Column {
        &self.columns[index]
    }

    /// Returns the integers of a column, or `None` if the column has another type.
    pub fn integers(&self, name: &str) -> Option<&Integers> {
        match &self.columns[self.schema().index(name)?] {
            Column::Integer(integers) => Some(integers),
            _ => None,
        }
    }

    /// Returns the strings of a column, or `None` if the column has another type.
    pub fn texts(&self, name: &str) -> Option<&Texts> {
        match &self.columns[self.schema().index(name)?] {
            Column::Text(texts) => Some(texts),
            _ => None,
        }
    }

    /// Returns the floating-point numbers of a column, or `None` if the column has another type.
    pub fn floats(&self, name: &str) -> Option<&[f64]> {
        match &self.columns[self.schema().index(name)?] {
            Column::Float(values) => Some(values),
            _ => None,
        }
    }

    /// Returns the time of a row in nanoseconds since 1970.
    pub fn ts(&self, row: usize) -> u64 {
        self.integers("ts").and_then(|ts| ts.get(row)).unwrap_or(0)
    }

    /// Fills the columns that are shorter than the table with rows without a value.
    pub(crate) fn seal(&mut self) {
        let rows = self.rows;
        self.columns.iter_mut().for_each(|column| column.fill(rows));
    }

    /// Appends rows of another table of the same name.
    pub fn append(&mut self, other: &Self, rows: &[u32]) {
        self.columns
            .par_iter_mut()
            .zip(&other.columns)
            .for_each(|(own, other)| own.append(other, rows));
        self.rows += rows.len();
    }

    /// Returns the hash of each row, which depends on the names and values of all fields.
    pub fn hashes(&self) -> Vec<u64> {
        /// Number of rows that one thread hashes at a time.
        const ROWS: usize = 1 << 16;
        let seeds: Vec<u64> = self
            .schema()
            .columns
            .iter()
            .map(|column| hash(column.name.as_bytes()))
            .collect();
        if self.rows <= ROWS {
            let mut sums = vec![0; self.rows];
            self.columns
                .iter()
                .zip(&seeds)
                .for_each(|(column, seed)| column.add_hashes(*seed, &mut sums));
            sums.iter_mut().for_each(|sum| *sum = mix(*sum));
            return sums;
        }
        let of_columns = self
            .columns
            .par_iter()
            .zip(&seeds)
            .filter(|(column, _)| !column.is_blank());
        let mut sums = of_columns
            .fold(
                || vec![0; self.rows],
                |mut sums, (column, seed)| {
                    column.add_hashes(*seed, &mut sums);
                    sums
                },
            )
            .reduce(
                || vec![0; self.rows],
                |mut sums, other| {
                    sums.iter_mut()
                        .zip(&other)
                        .for_each(|(sum, other): (&mut u64, &u64)| *sum = sum.wrapping_add(*other));
                    sums
                },
            );
        sums.par_iter_mut().for_each(|sum| *sum = mix(*sum));
        sums
    }

    /// Returns the row count and checksum.
    pub fn sum(&self) -> Sum {
        let hash = self.hashes().into_iter().fold(0, u64::wrapping_add);
        Sum {
            rows: self.rows as u64,
            hash,
        }
    }

    /// Returns the row indices in the order of the archive, without copies.
    ///
    /// Ports are sorted by `guid`, `port`, `sampler` and `ts`, all other tables by `ts`. A row is a
    /// copy only if all of its fields are equal.
    pub fn order(&self) -> Vec<u32> {
        let is_copy = |hash: u64, row: u32, later_hash: u64, later: u32| {
            hash == later_hash && self.is_equal(row as usize, later as usize)
        };
        let hashes = self.hashes();
        let ts = |row: usize| self.ts_column().and_then(|ts| ts.get(row)).unwrap_or(0);
        if self.name != TableName::Ports {
            let mut order: Vec<(u64, u64, u32)> = (0..self.rows)
                .map(|row| (ts(row), hashes[row], row as u32))
                .collect();
            order.par_sort_unstable();
            order.dedup_by(|(_, later_hash, later), (_, hash, row)| {
                is_copy(*hash, *row, *later_hash, *later)
            });
            return order.into_iter().map(|(_, _, row)| row).collect();
        }
        let (guids, samplers) = (self.ranks("guid"), self.ranks("sampler"));
        let ports = self.integers("port");
        let key = |row: usize| {
            let port = ports.and_then(|ports| ports.get(row)).unwrap_or(0);
            // A port number fits into 8 bits.
            (
                u64::from(guids[row]) << 8 | port & 0xff,
                samplers[row],
                ts(row),
            )
        };
        let mut order: Vec<((u64, u32, u64), u64, u32)> = (0..self.rows)
            .into_par_iter()
            .map(|row| (key(row), hashes[row], row as u32))
            .collect();
        order.par_sort_unstable();
        order.dedup_by(|(later_key, later_hash, later), (key, hash, row)| {
            key == later_key && is_copy(*hash, *row, *later_hash, *later)
        });
        order.into_iter().map(|(_, _, row)| row).collect()
    }

    fn is_equal(&self, a: usize, b: usize) -> bool {
        self.columns.iter().all(|column| column.is_equal(a, b))
    }

    /// Returns the number of rows that repeat the key of their predecessor with other values.
    /// `order` is the [order](Self::order) of the archive. Only the table `ports` has a key.
    pub(crate) fn conflicts(&self, order: &[u32]) -> u64 {
        let columns = ["ts", "sampler", "port", "guid"].map(|name| self.schema().index(name));
        let is_same_key = |rows: &&[u32]| {
            columns
                .into_iter()
                .flatten()
                .all(|column| self.columns[column].is_equal(rows[0] as usize, rows[1] as usize))
        };
        if self.name == TableName::Ports {
            order.windows(2).filter(is_same_key).count() as u64
        } else {
            0
        }
    }

    /// Divides sorted rows into groups with at most `most` rows. If possible, a group has all rows
    /// of a port, so a reader of one port reads only this group.
    pub(crate) fn groups<'r>(&self, order: &'r [u32], most: usize) -> Vec<&'r [u32]> {
        let (guids, ports) = (self.texts("guid"), self.integers("port"));
        let port = |row: u32| {
            let guid = guids.and_then(|guids| guids.ids.get(row as usize));
            (guid, ports.and_then(|ports| ports.get(row as usize)))
        };
        let (mut groups, mut rest) = (Vec::new(), order);
        while rest.len() > most {
            let is_end = |end: &usize| port(rest[*end]) != port(rest[end - 1]);
            let end = if self.name.is_by_port() {
                (1..=most).rev().find(is_end).unwrap_or(most)
            } else {
                most
            };
            let (group, after) = rest.split_at(end);
            groups.push(group);
            rest = after;
        }
        if !rest.is_empty() {
            groups.push(rest);
        }
        groups
    }

    fn ts_column(&self) -> Option<&Integers> {
        self.integers("ts")
    }

    /// Returns the rank of each row's string in the alphabetic order of all strings.
    fn ranks(&self, name: &str) -> Vec<u32> {
        let Some(texts) = self.texts(name) else {
            return vec![0; self.rows];
        };
        let mut sorted: Vec<u32> = (0..texts.list().len() as u32).collect();
        sorted.sort_unstable_by_key(|id| texts.text(*id));
        let mut ranks = vec![0; sorted.len()];
        sorted
            .into_iter()
            .enumerate()
            .for_each(|(rank, id)| ranks[id as usize] = rank as u32 + 1);
        texts
            .ids
            .all()
            .iter()
            .map(|id| ranks.get(*id as usize).copied().unwrap_or(0))
            .collect()
    }
}
