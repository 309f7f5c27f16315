//! Tests that the plans of all shapes stay equal byte by byte.
//!
//! A change that makes the planner faster must keep these plans. A change of the rules or of the
//! search replaces the digests, and CHANGELOG.md names the change.

use ibnet_record::types::NodeKind;

use super::planning::hosts;
use super::{Plan, PlanError, PlanOptions, Request, assignments_of, plan_with, previous_of};
use crate::assignments::{Header, sha256_hex};
use crate::topology::shapes::{Dragonfly, Grid, Rails, ThreeTiers};
use crate::topology::synthetic::{Blueprint, FatTree, stria};
use crate::topology::{Fabric, ports_report};

/// Plans a fabric with this number of samplers, which are spread evenly.
fn planned(
    fabric: &Fabric,
    samplers: usize,
    cap: u32,
    options: &PlanOptions<'_>,
) -> Result<Plan, PlanError> {
    let hcas = fabric
        .devices()
        .iter()
        .filter(|device| device.kind == NodeKind::Hca);
    let mut names: Vec<_> = hcas.map(|device| device.host()).collect();
    names.sort_unstable();
    names.dedup();
    let list: Vec<_> = (0..samplers)
        .map(|n| names[n * names.len() / samplers])
        .collect();
    let samplers = hosts::locate(
        &hosts::parse_list(&list.join(",")).expect("names"),
        &[],
        fabric,
    )
    .expect("in the fabric");
    plan_with(
        &Request {
            fabric,
            samplers,
            cap,
        },
        options,
    )
}

/// Returns the first digits of the SHA-256 of four plans. Plan 1 follows only the rules. Plan 2
/// also uses the search. Plan 3 has secondary samplers. Plan 4 has one sampler less than plan 2,
/// and plan 2 is its previous plan. A digest is `-` if there are too few samplers.
fn digests(blueprint: &Blueprint, samplers: usize, cap: u32) -> [String; 4] {
    let fabric = ports_report::parse(blueprint.ports_report().as_bytes(), "net.p")
        .expect("the format of this crate")
        .fabric;
    let header = Header {
        sources: Vec::new(),
        command: String::new(),
    };
    let digest =
        |samplers: usize, options: &PlanOptions<'_>| match planned(&fabric, samplers, cap, options)
        {
            Ok(plan) => sha256_hex(assignments_of(&plan, &fabric).to_toml(&header).as_bytes())[..8]
                .to_owned(),
            Err(_) => "-".to_owned(),
        };
    let searched =
        planned(&fabric, samplers, cap, &PlanOptions::default()).expect("enough samplers");
    let previous = previous_of(&assignments_of(&searched, &fabric), None);
    [
        digest(
            samplers,
            &PlanOptions {
                optimize: false,
                ..PlanOptions::default()
            },
        ),
        digest(samplers, &PlanOptions::default()),
        digest(
            samplers,
            &PlanOptions {
                redundant: true,
                ..PlanOptions::default()
            },
        ),
        digest(
            samplers - 1,
            &PlanOptions {
                previous: Some(&previous),
                ..PlanOptions::default()
            },
        ),
    ]
}

#[test]
fn plans_keep_their_octets() {
    let tree = |leaves, hosts, spines, trunk, radix| {
        FatTree {
            leaves,
            hosts,
            spines,
            trunk,
            radix,
        }
        .blueprint()
    };
    let cases = [
        (
            "paper",
            stria(),
            9,
            150,
            ["7812b29a", "cfbc90aa", "da1e1447", "fe0c03b9"],
        ),
        (
            "tight cap",
            stria(),
            9,
            124,
            ["b23d0c09", "b23d0c09", "f22cd08d", "8311784f"],
        ),
        // Leaves and spines have more ports than the cap, so HCA ports have other samplers.
        (
            "large leaves",
            tree(12, 30, 12, 1, 42),
            60,
            40,
            ["84dbc614", "84dbc614", "67846826", "aff902a1"],
        ),
        (
            "two tiers",
            tree(24, 12, 12, 1, 24),
            14,
            110,
            ["29690feb", "29690feb", "9107f47a", "4d9470d2"],
        ),
        (
            "three tiers",
            ThreeTiers { radix: 12, pods: 5 }.blueprint(),
            9,
            150,
            ["49add3d8", "fbd0633d", "8d5529a0", "b847e672"],
        ),
        (
            "Dragonfly+",
            Dragonfly {
                groups: 9,
                leaves: 4,
                spines: 4,
                hosts: 4,
            }
            .blueprint(),
            9,
            100,
            ["a9e4fb0e", "a15c1713", "e81d7d1d", "2d5c2852"],
        ),
        (
            "Dragonfly",
            Dragonfly {
                groups: 6,
                leaves: 4,
                spines: 0,
                hosts: 4,
            }
            .blueprint(),
            7,
            80,
            ["29bced83", "29bced83", "2621fed8", "08684f35"],
        ),
        (
            "torus",
            Grid {
                sizes: vec![4, 4, 3],
                wrapped: true,
                hosts: 3,
            }
            .blueprint(),
            13,
            90,
            ["85418c9e", "85418c9e", "d383f465", "8adafc04"],
        ),
        (
            "rails",
            Rails {
                units: 4,
                hosts: 8,
                rails: 4,
                spines: 4,
            }
            .blueprint(),
            9,
            60,
            ["f9c4ff18", "f9c4ff18", "c4bd3ce4", "7c750c39"],
        ),
    ];
    let (found, golden): (Vec<_>, Vec<_>) = cases
        .into_iter()
        .map(|(name, blueprint, samplers, cap, golden)| {
            (
                (name, digests(&blueprint, samplers, cap)),
                (name, golden.map(str::to_owned)),
            )
        })
        .unzip();
    assert_eq!(found, golden);
}
