//! Tests of sweeps on the simulated fabric, most of them in virtual time. They are one test
//! program, because each test program links the whole library.
//!
//! With `IBNET_TEST_SMP=directed`, they run on fabrics that do not answer SMPs by LID, with directed
//! routes; only the tests with stored results and those of `verify` do not. The tests of
//! [`on_both_fabrics`] always run on both.

use std::cell::Cell;

use ibnet::mad::transport::sim::Options;
use ibnet::sweep::engine::{Config, SmpWay};

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

thread_local! {
    static BY_ROUTES: Cell<bool> =
        Cell::new(std::env::var_os("IBNET_TEST_SMP").is_some_and(|way| way == "directed"));
}

/// Returns whether SMPs take directed routes, because the fabric does not answer them by LID.
fn by_routes() -> bool {
    BY_ROUTES.get()
}

/// Returns the options of the fabric of a test.
fn options() -> Options {
    Options {
        smps_by_lid: !by_routes(),
        ..Options::default()
    }
}

/// Returns the settings of the engine of a test.
fn config() -> Config {
    Config {
        smp: if by_routes() {
            SmpWay::Directed
        } else {
            SmpWay::Auto
        },
        ..Config::default()
    }
}

/// Runs a test with SMPs by LID, and on a fabric that does not answer them.
fn on_both_fabrics(test: impl Fn()) {
    for by_routes in [false, true] {
        BY_ROUTES.set(by_routes);
        test();
    }
}
