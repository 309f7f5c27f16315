//! Compares verdicts on simulated links with the truth, as in the table of `docs/health.md`.
//!
//!     cargo run --release -p ibnet-analysis --example link_truth -- FIRST_SEED SEEDS LINKS

#[path = "../tests/links/mod.rs"]
mod links;

use ibnet::mad::transport::sim::link_end::Change;
use links::{Counts, leads};
use rayon::prelude::*;

/// Minutes of readings after which links are judged.
const MINUTES: u32 = 180;

/// One cable in 40 ages in the model; of these, one in 3 is taken, so that 0.8 % age.
const THINNED: usize = 3;

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn main() -> Result<(), &'static str> {
    let number = |text: String| text.parse::<u64>().ok();
    let given: Vec<u64> = std::env::args().skip(1).filter_map(number).collect();
    let [first, seeds, count] = given[..] else {
        return Err("give FIRST_SEED SEEDS LINKS");
    };
    println!(
        "good and wrong: links without a fault, and those with another verdict at the end; ever:"
    );
    println!("at any time. PDR: links that its rule isolated: good, ageing, bad contact.\n");
    println!(
        "speed rates   good  wrong  ever  ageing  recall  precision  contacts  found  false  PDR"
    );
    for (speed, scale) in [
        ("NDR", 1.0),
        ("NDR", 0.3),
        ("NDR", 3.0),
        ("EDR", 1.0),
        ("EDR", 0.3),
        ("EDR", 3.0),
    ] {
        let change = Change {
            scale,
            ..Change::default()
        };
        let of_seed = |seed| Counts::of(seed, 0..count, speed, change, (MINUTES, THINNED));
        let counts = (first..first + seeds)
            .into_par_iter()
            .map(of_seed)
            .reduce(Counts::default, Counts::merge);
        let [recall, precision] = counts.of_ageing();
        println!(
            "{speed} x {scale:3}  {:6}  {:5}  {:4}  {:6}  {recall:6.3}  {precision:9.3}  {:8}  {:5}  {:5}  {:?}",
            counts.good[0],
            counts.good[1],
            counts.ever_wrong,
            counts.ageing[0],
            counts.contact[0],
            counts.contact[1],
            counts.false_contact,
            counts.isolated,
        );
    }
    println!("\nyears an hour  ageing links  median lead  least");
    for years_an_hour in [0.25, 0.5, 1.0, 2.0] {
        let of_seed = |seed| leads(seed, 0..count, years_an_hour);
        let mut hours: Vec<f64> = (first..first + seeds)
            .into_par_iter()
            .flat_map_iter(of_seed)
            .collect();
        hours.sort_by(f64::total_cmp);
        println!(
            "{years_an_hour:13}  {:12}  {:9.1} h  {:3.1} h",
            hours.len(),
            hours.get(hours.len() / 2).copied().unwrap_or(f64::NAN),
            hours.first().copied().unwrap_or(f64::NAN),
        );
    }
    Ok(())
}
