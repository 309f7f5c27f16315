//! Bindings that `build.rs` generates from the headers of rdma-core. The lists of the used
//! functions and types are in `build.rs`.
#![allow(
    unsafe_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    dead_code,
    unused_qualifications,
    unsafe_op_in_unsafe_fn,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    clippy::use_self,
    clippy::semicolon_if_nothing_returned,
    reason = "generated"
)]

include!(concat!(env!("OUT_DIR"), "/rdma_core.rs"));
include!(concat!(env!("OUT_DIR"), "/libibmad_fields.rs"));
