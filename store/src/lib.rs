//! Stores the records of `ibnet-sweep` as Parquet files, the *archive*. `docs/archive.md` describes
//! it for users.
//!
//! | module | contents |
//! |---|---|
//! | [`schema`] | the tables and their columns |
//! | [`parse`] | reads lines into tables |
//! | [`lines`] | writes the rows of a table as lines |
//! | [`table`], [`mod@column`], [`ids`] | rows in memory, as columns |
//! | [`mod@write`], [`read`] | Parquet files |
//! | `checksums` | checksums over the bytes of a file |
//! | [`archive`] | the folders of an archive |
//! | [`pack`] | packs lines into an archive |
//! | [`derive`](mod@derive) | computes tables from the table `ports` |
//! | [`inputs`] | the files that were packed |
//! | [`retain`] | removes the oldest hours |
//! | [`hour`] | hours in UTC, the folders of a table |
//! | [`part`] | parts of a large hour, the files of a folder |
//! | [`error`] | errors of the archive |
//!
//! The archive is lossless: the lines that it returns have the same fields with the same values.

pub mod archive;
pub mod checked;
mod checksums;
pub mod column;
mod decode;
pub mod derive;
mod dictionary;
pub mod error;
pub mod hour;
pub mod ids;
pub mod inputs;
mod layout;
pub mod lines;
mod numbers;
pub mod pack;
mod pages;
pub mod parse;
pub mod part;
pub mod read;
pub mod retain;
pub mod schema;
mod section;
mod sources;
pub mod table;
pub mod write;

#[cfg(test)]
mod tests;
