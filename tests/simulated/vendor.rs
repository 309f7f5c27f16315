//! Reads the reports of `verify --vendor` in `tests/data/vendor` as a sweep reads replies. The only
//! one so far is from a simulated fabric; those of sites come here.
#![cfg(feature = "umad")]
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::fs;
use std::path::Path;

use ibnet::sweep::physical_record;
use ibnet::verify::vendor::VendorReport;
use ibnet_record::physical::{Value, Values};
use ibnet_record::registers::Page;

fn sum(values: &Values, name: &str) -> u64 {
    match values.get(name).unwrap() {
        Value::Integers(values) => values.iter().sum(),
        Value::Integer(value) => *value,
        other => panic!("{name}: {other:?}"),
    }
}

#[test]
fn replies_of_reports_have_values_that_agree() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/vendor");
    let mut devices = 0;
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        let report: VendorReport = serde_json::from_str(&text).unwrap();
        for device in report.devices.iter().filter(|device| device.has_registers) {
            let images = device.images();
            let of = |page: Page| {
                let found = images.iter().filter(|(of, _)| *of == page);
                physical_record::values(found.map(|(page, image)| (*page, image)))
            };
            let ber = of(Page::Ber);
            assert_eq!(
                sum(&ber, "phy_corrected_bits"),
                sum(&ber, "phy_raw_errors_lane")
            );
            assert!(sum(&ber, "phy_received_bits") > 0);
            // The pages are read one after another, so the second one has counted more.
            let blocks = ["no_errors", "corrected", "uncorrectable"]
                .map(|name| sum(&of(Page::Fec), &format!("rs_fec_{name}_blocks")));
            let before: u64 = blocks.iter().sum();
            let later = sum(&of(Page::FecHistogram), "hist");
            assert!(
                (before..before + before / 1000).contains(&later),
                "{before} {later}"
            );
            let module = of(Page::Module);
            assert_eq!(module.get("vendor_sn"), Some(&Value::Text(String::new())));
            let Some(Value::Float(celsius)) = module.get("temperature_c") else {
                panic!("{module:?}")
            };
            assert!((0.0..90.0).contains(celsius), "{celsius}");
            devices += 1;
        }
    }
    assert!(devices > 0);
}
