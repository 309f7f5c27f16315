//! The sweep: every assigned port asked once a slot, and a record of each, whatever happened.
//!
//! A **slot** is one interval of the wall clock; all samplers start theirs in the same instant. A **sample** is what one slot brought of
//! one port. The **deadline** of a MAD frees its place in the **window**; until its **grace** ends a reply still counts, and the port is
//! `late`.
//!
//! | file | what is in it |
//! |---|---|
//! | [`plan`] | from an assignment to what is asked |
//! | [`engine`] | who is asked next, and what a reply means: the state machine, without I/O and without a clock |
//! | [`group_list`] | the counter groups of a sweep, each once |
//! | [`inflight`] | transactions on their way, by TID, with their deadlines |
//! | [`sample`] | what a slot brought of one port |
//! | [`schedule`] | when slots start, and what lies between two of them |
//! | [`stats`] | what a slot brought in sum |
//! | [`blocked`] | from ticks of PortXmitWait to a share of time |
//! | [`window`] | how many MADs may be under way, and how fast |
//! | [`counter`] | from readings to rates: resets, saturation, gaps |
//! | [`record`] | the JSON lines |
//! | [`rehearsal`] | engine and simulated fabric in virtual time |
//! | [`query`] | one port asked once, and shown as `perfquery` shows it |
//! | [`driver`] | joins engine, transport and sink; has the one file that reads clocks |

pub mod blocked;
pub mod counter;
pub mod driver;
pub mod engine;
pub mod group_list;
pub mod inflight;
pub mod plan;
pub mod query;
pub mod record;
pub mod rehearsal;
pub mod sample;
pub mod schedule;
pub mod stats;
pub mod window;
