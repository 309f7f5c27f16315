//! Outputs and plans on a real NATS server, which `make tools` fetches.

mod batches;
mod collect;
mod plans;
mod server;
mod spool;
mod streams;
