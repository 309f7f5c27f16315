use super::*;
use crate::fixtures::{event, fold, port};

fn lines() -> Vec<String> {
    let line = |slot: u64, (gbps, dt): (f64, u64), errors: u64| {
        let rest = [
            ("xmit_gbps", gbps.into()),
            ("xmit_utilization", (gbps / 100.0).into()),
            ("dt_ns", dt.into()),
            ("port_rcv_errors", errors.into()),
        ];
        port(slot, (1, 2), "leaf", (0x101, 1, "n1 mlx5_0"), &rest)
    };
    vec![
        line(1, (10.0, 1_000_000_000), 5),
        event(2, (1, 2), "link_change", "from 4xHDR to 4xEDR"),
        line(4, (40.0, 3_000_000_000), 9),
        event(5, (1, 2), "link_down", "down"),
        event(5, (7, 7), "link_down", "down"),
        line(5, (10.0, 1_000_000_000), 2),
    ]
}

#[test]
fn means_are_weighted_by_time_and_the_fastest_link_is_kept() {
    let ports = fold(Ports::with_bins(4), &lines()).finish();
    assert_eq!(
        ports.keys().collect::<Vec<_>>(),
        [&(Guid(1), PortNum(2))],
        "a port that is only in events is left out"
    );
    let port = &ports[&(Guid(1), PortNum(2))];
    // (10 x 1 s + 40 x 3 s + 10 x 1 s) / 5 s
    assert_eq!(
        (
            port.all.xmit.mean(),
            port.all.xmit.peak(),
            port.all.xmit_utilization.mean()
        ),
        (Some(28.0), Some(40.0), Some(0.28))
    );
    assert_eq!(
        (&*port.node, port.peer, &*port.peer_name),
        ("leaf", Some((Guid(0x101), PortNum(1))), "n1 mlx5_0")
    );
    assert_eq!(
        (&*port.link, &*port.fastest, port.gbps()),
        ("4xEDR", "4xHDR", Some(100.0))
    );
    assert_eq!(
        (
            port.events.downs,
            port.events.changes,
            port.events.is_down()
        ),
        (1, 1, true)
    );
    // 5 to 9, reset, and 0 to 2.
    assert_eq!(
        (
            port.error_sum(),
            port.errors[5].map(|change| change.is_lower_bound)
        ),
        (6, Some(true))
    );
    assert_eq!((port.records, port.seconds()), ((3, 3), 4.0));
}

#[test]
fn counter_grows_over_a_change_of_the_sampler() {
    let of = |sampler: &str, slot, errors: u64| {
        let rest = [
            ("sampler", sampler.into()),
            ("port_rcv_errors", errors.into()),
        ];
        port(slot, (1, 2), "leaf", (0x101, 1, "n1"), &rest)
    };
    let lines = [
        of("a", 1, 10),
        of("a", 2, 12),
        of("b", 3, 15),
        of("b", 4, 15),
    ];
    let ports = fold(Ports::with_bins(4), &lines).finish();
    let port = &ports[&(Guid(1), PortNum(2))];
    assert_eq!(
        (
            port.error_sum(),
            port.errors[5].map(|change| change.is_lower_bound)
        ),
        (5, Some(false))
    );
}

#[test]
fn parts_of_a_counter_are_not_summed_twice() {
    for (index, name) in ERROR_COUNTERS.iter().enumerate() {
        let prefixes_of_parts = [
            "port_local",
            "port_malformed",
            "port_buffer",
            "port_dlid",
            "port_vl",
            "port_looping",
            "port_inactive",
            "port_neigh",
            "port_sw",
        ];
        assert_eq!(
            is_error_part(index),
            prefixes_of_parts
                .iter()
                .any(|start| name.starts_with(start)),
            "{name}"
        );
    }
}
