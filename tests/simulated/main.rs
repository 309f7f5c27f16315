//! Tests of sweeps on the simulated fabric, most of them in virtual time. They are one test
//! program, because each test program links the whole library.

mod changes;
mod clear;
mod discovery;
mod handover;
mod physical;
mod rates;
mod reads;
mod reconnect;
mod scenarios;
mod transport;
mod traps;
mod vendor;
mod verify;
mod virtual_records;
