//! The path of two hosts, with tables of records and of a file.

use ibnet_analysis::routes::Routes;

use super::*;
use crate::query::evaluated::Evaluated;
use crate::query::path;

/// Returns the records of the tables in the file.
fn tables() -> String {
    let text = fs::read_to_string(file("routes.fdbs")).expect("the file is read");
    let routes = Routes::parse(&text, "routes.fdbs").expect("tables");
    let record = |guid: Guid| {
        let mut ports = [255_u8; 64];
        let first = 256_u16;
        for (lid, port) in routes.entries(guid) {
            ports[usize::from(lid.0 - first)] = port.0;
        }
        let block = |first: u16, ports: &[u8]| {
            json!({"type": "routes", "ts": START * SECOND, "sampler": "s1", "guid": guid, "lid": 1, "node": "x",
                "table": "linear", "top": 319, "first_lid": first, "ports": ports})
            .to_string()
        };
        let blocks = (0..4).map(|number| block(64 * number, &[255; 64]));
        let all: Vec<_> = blocks.chain([block(first, &ports)]).collect();
        all.join("\n") + "\n"
    };
    routes.switches().map(record).collect()
}

fn evaluated(hub: &Hub) -> Arc<Evaluated> {
    let range = ((START + 105) * SECOND, (START + 145) * SECOND);
    let found = Evaluations::default().find(hub, range);
    found.expect("evaluated")
}

fn ask(hub: &Hub, sender: &str, receiver: &str) -> Json {
    let found = path::find(hub, &evaluated(hub), (sender, receiver));
    serde_json::to_value(found.expect("found")).expect("JSON")
}

#[test]
fn path_follows_the_tables_of_records_as_those_of_a_file() {
    let lines = lines().join("\n") + "\n";
    let without = ask(&hub(std::slice::from_ref(&lines)), "node101", "node104");
    let reason = without["reason"].as_str().expect("a reason");
    assert!(
        reason.contains("[routes]"),
        "the remedy is missing: {reason}"
    );
    assert_eq!(
        (&without["rows"], &without["tables"]),
        (&json!([]), &Json::Null)
    );

    let live = hub(&[tables(), lines.clone()]);
    let octets = live.read().kept().octets;
    assert_eq!(
        octets - hub(std::slice::from_ref(&lines)).read().kept().octets,
        3 * 320
    );
    let found = ask(&live, "node101", "node104");
    let of_file = hub(&[lines]).with_routes(Some(file("routes.fdbs")));
    let expected = ask(&of_file, "node101", "node104");
    for way in ["rows", "back"] {
        assert_eq!(found[way], expected[way], "{way}");
    }
    let ports: Vec<_> = found["rows"]
        .as_array()
        .expect("links")
        .iter()
        .map(|row| format!("{} {}", row["from"]["node"], row["from"]["port"]).replace('"', ""))
        .collect();
    assert_eq!(
        ports,
        ["node101 mlx5_0 1", "switch1 3", "switch9 2", "switch2 2"]
    );
    assert_eq!(found["back"].as_array().map(Vec::len), Some(4));
    // The first port waits for half of the time, and the last one is full.
    assert_eq!(found["rows"][0]["blocked"], json!(0.5));
    assert_eq!(found["rows"][3]["xmit_utilization"], json!(0.97));
    let condition = ["switches", "partial", "changing", "left_out"];
    let condition = condition.map(|name| found["tables"][name].clone());
    assert_eq!(condition, [json!(3), json!([]), json!([]), json!([])]);
}

#[test]
fn path_that_ends_early_has_a_reason() {
    let lines = lines().join("\n") + "\n";
    let all = tables();
    let of = |number: &str| format!("\"guid\":\"0x000000000000000{number}\"");
    let without_spine: String = all
        .lines()
        .filter(|line| !line.contains(&of("9")))
        .map(|line| line.to_owned() + "\n")
        .collect();
    let hub = hub(&[without_spine, lines]);
    let found = ask(&hub, "node101", "node104");
    let reason = "no path from node101 mlx5_0 to node104 mlx5_0: there is no table of switch9";
    assert_eq!(found["reason"], json!(reason));
    assert_eq!(found["rows"].as_array().map(Vec::len), Some(2));
    let missing = path::find(&hub, &evaluated(&hub), ("node1", "node104"));
    assert!(missing.is_err_and(|error| error.reason.contains("node1")));
}
