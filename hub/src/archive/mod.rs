//! Connects the hub to an archive: reads records older than those in memory, and packs what the
//! hub receives.
//!
//! ```text
//! sockets, standard input, core NATS -> lines -> spool ---+
//! files, JetStream -> an own reader for the archive -> spool -> packing -> archive -> reader
//! ```
//!
//! The *spool* is a folder of compressed lines inside the archive. A line is in the spool before
//! the web page shows it. Packing reads whole spool files, adds their records to the archive, and
//! then removes the files. The archive drops copies by their key, so an interrupted run can be
//! repeated without harm.
//!
//! Files and JetStream keep what the hub has not read. They have a reader of their own, which
//! waits while the disk is full and continues at its last position after a restart. The other
//! inputs cannot wait, so their lines are counted as lost while the disk is full.
//!
//! | module | contents |
//! |---|---|
//! | [`reader`] | folds the records of the archive |
//! | [`spool`] | lines that are not in the archive yet |
//! | [`packing`] | the thread that packs |
//! | [`source`] | the readers of files and of JetStream for the archive |
//! | [`status`] | the condition of the packing |

pub(crate) mod packing;
pub(crate) mod reader;
pub(crate) mod source;
pub(crate) mod spool;
pub(crate) mod status;
#[cfg(feature = "nats")]
mod stream;

#[cfg(test)]
mod tests;

pub(crate) use self::reader::Archive;
