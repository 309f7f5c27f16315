//! Compares the answers with `openapi.json`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use ibnet::metrics::{Content, Secrets, Settings};
use ibnet_analysis::groups::Groups;
use serde_json::{Value as Json, json};
use tower::ServiceExt;

use super::routes::{addresses, router};
use super::server::Access;
use crate::alerts::status::ReceiverState;
use crate::alerts::tests::{Watched, settings as settings_of_alerts};
use crate::query::tests::{add_jobs, file, hub, lines};
use crate::state::{Hub, Now};
use crate::users::Users;

mod roles;

const OPEN_API: &str = include_str!("../../openapi.json");
const SCHEMAS: &str = "#/components/schemas/";

/// Returns the settings of a server on a free port, without a password.
pub(crate) fn settings() -> Settings {
    Settings {
        prefix: "",
        listen: ([127, 0, 0, 1], 0).into(),
        tls: None,
        password_file: None,
        plain_http: Vec::new(),
        content: Content::default(),
    }
}

fn access() -> Access {
    Access::new(Secrets::read(&settings()).expect("no files"))
}

/// Returns status and content of an answer.
fn get(hub: &Arc<Hub>, path: &str) -> (u16, Vec<u8>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let request = Request::get(format!("/api/v1{path}"))
            .header("host", "localhost")
            .body(Body::empty())
            .expect("a request");
        let response = router(Arc::clone(hub), access())
            .oneshot(request)
            .await
            .expect("infallible");
        let status = response.status().as_u16();
        assert!(response.headers().contains_key("content-security-policy"));
        (
            status,
            to_bytes(response.into_body(), usize::MAX)
                .await
                .expect("a body")
                .to_vec(),
        )
    })
}

fn filled() -> Arc<Hub> {
    filled_with(Users::default(), add_jobs)
}

/// Returns a hub with everything that answers can have.
fn filled_with(users: Users, add_jobs: impl Fn(&Hub)) -> Arc<Hub> {
    let group = "storage=node103,node104".parse().expect("a group");
    let hub = hub(&[lines().join("\n") + "\n", physical()])
        .with_packing(Some(Arc::default()))
        .with_groups(Groups::new(vec![group]).expect("one group"))
        .with_routes(Some(file("routes.fdbs")))
        .with_cabling(Some(file("cabling.csv")))
        .with_marks(Some(file("marks.csv")))
        .with_users(users);
    hub.tick(crate::ingest::Clock::start().now());
    add_jobs(&hub);
    let hub = Arc::new(hub);
    let settings =
        settings_of_alerts(|raw| raw.limits = vec!["InfinibandReceiveErrors=0".to_owned()]);
    let now = crate::ingest::Clock::start().now();
    // A recording counts as read after two seconds.
    let now = Now {
        monotonic: Duration::from_secs(60),
        ..now
    };
    Watched::new(Arc::clone(&hub), settings).look(now);
    hub.alerts().receivers.push(ReceiverState::default());
    hub
}

/// Returns two readings of a port, one of its module, and one of its switch.
fn physical() -> String {
    let line = |kind: &str, second: u64, port: Option<u8>, values: Json| {
        let mut line = json!({"type": kind, "ts": (1_700_000_000 + second) * 1_000_000_000, "slot": 1_700_000_000 + second,
            "sampler": "s1", "guid": "0x0000000000000001", "port": port, "lid": 1, "node": "switch1", "dt_ns": null});
        let of_line = line.as_object_mut().expect("an object");
        of_line.extend(values.as_object().expect("values").clone());
        format!("{line}\n")
    };
    let bits = |received: u64, corrected: u64| {
        json!({"time_since_last_clear_ms": received / 1_000, "phy_received_bits": received, "phy_corrected_bits": corrected,
            "phy_effective_errors": 0, "phy_symbol_errors": 0, "phy_raw_errors_lane": [1, 2, u64::MAX, 4], "raw_ber_coef": 15,
            "raw_ber_magnitude": 9, "local_reason_opcode": 23, "remote_reason_opcode": 0, "e2e_reason_opcode": 23, "down_blame": 1,
            "down_intent": 2})
    };
    [
        line("phy", 60, Some(1), bits(6_000_000, 10)),
        line("phy", 120, Some(1), bits(26_000_000, 50)),
        line(
            "module",
            120,
            Some(1),
            json!({"vendor_sn": "SN7", "temperature_c": 48.5, "rx_power_uw": [800, 900]}),
        ),
        line(
            "sensors",
            120,
            None,
            json!({"temperature_c": 61.0, "fan_under_limit": 0}),
        ),
    ]
    .concat()
}

/// Returns the faults of a value: what the schema does not allow or what is missing.
fn faults(api: &Json, schema: &Json, value: &Json, place: &str) -> Vec<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let name = name.trim_start_matches(SCHEMAS);
        return faults(api, &api["components"]["schemas"][name], value, place);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let all: Vec<_> = any
            .iter()
            .map(|schema| faults(api, schema, value, place))
            .collect();
        return if all.iter().any(Vec::is_empty) {
            Vec::new()
        } else {
            all.concat()
        };
    }
    if let Some(bases) = schema["allOf"].as_array() {
        let mut whole = schema.clone();
        whole["allOf"].take();
        for base in bases {
            let name = base["$ref"].as_str().expect("a name");
            let base = &api["components"]["schemas"][name.trim_start_matches(SCHEMAS)];
            for (name, schema) in base["properties"].as_object().expect("properties") {
                whole["properties"][name] = schema.clone();
            }
            let required = base["required"].as_array().expect("names");
            whole["required"]
                .as_array_mut()
                .expect("names")
                .extend_from_slice(required);
        }
        return faults(api, &whole, value, place);
    }
    let types: Vec<&str> = match &schema["type"] {
        Json::String(one) => vec![one],
        Json::Array(many) => many.iter().filter_map(Json::as_str).collect(),
        _ => return Vec::new(),
    };
    let is = |name: &str| match value {
        Json::Null => name == "null",
        Json::Bool(_) => name == "boolean",
        Json::Number(number) => name == "number" || (name == "integer" && !number.is_f64()),
        Json::String(_) => name == "string",
        Json::Array(_) => name == "array",
        Json::Object(_) => name == "object",
    };
    if !types.iter().any(|name| is(name)) {
        return vec![format!("{place}: {value} is not {types:?}")];
    }
    let mut found = Vec::new();
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        found.push(format!("{place}: {value} is not one of {allowed:?}"));
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        found.extend(
            values
                .iter()
                .flat_map(|value| faults(api, items, value, &format!("{place}[]"))),
        );
    }
    if let (Some(other @ Json::Object(_)), Some(fields)) =
        (schema.get("additionalProperties"), value.as_object())
    {
        found.extend(
            fields
                .iter()
                .flat_map(|(name, value)| faults(api, other, value, &format!("{place}.{name}"))),
        );
    }
    if let (Some(properties), Some(fields)) = (schema["properties"].as_object(), value.as_object())
    {
        let required = schema["required"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Json::as_str);
        found.extend(
            required
                .filter(|name| !fields.contains_key(*name))
                .map(|name| format!("{place}.{name} is missing")),
        );
        for (name, value) in fields {
            match properties.get(name) {
                Some(schema) => {
                    found.extend(faults(api, schema, value, &format!("{place}.{name}")));
                }
                None => found.push(format!("{place}.{name} is not described")),
            }
        }
    }
    found
}

#[test]
fn answers_have_the_described_form() {
    let api: Json = serde_json::from_str(OPEN_API).expect("JSON");
    let hub = filled();
    let range = "from=1700000095000000000&to=1700000155000000000";
    for (path, query) in [
        ("/alerts", String::new()),
        ("/cabling", String::new()),
        ("/health", String::new()),
        ("/topology", String::new()),
        ("/ports", "q=node".to_owned()),
        ("/marks", String::new()),
        ("/path", format!("sender=node101&receiver=node104&{range}")),
        ("/port/{guid}/{number}", String::new()),
        ("/port/{guid}/{number}/physical", String::new()),
        ("/series", "port=0x0000000000000001/1&metric=xmit_gbps".to_owned()),
        (
            "/series",
            "port=0x0000000000000001/1&port=0x0000000000000001/2&metric=xmit_gbps&metric=port_rcv_errors&step=5000000000".to_owned(),
        ),
        ("/timeline", String::new()),
        ("/links", range.to_owned()),
        ("/links/health", String::new()),
        ("/trees", range.to_owned()),
        ("/errors", range.to_owned()),
        ("/events", String::new()),
        ("/events", "kind=links,sm".to_owned()),
        ("/samplers", String::new()),
        ("/jobs", String::new()),
        ("/jobs", "job=7&state=running&q=node101".to_owned()),
        ("/job/{id}", String::new()),
        ("/job/{id}/matrix", String::new()),
        ("/groups", String::new()),
        ("/group/{name}", String::new()),
        ("/group/{name}", range.to_owned()),
        ("/sm", String::new()),
        ("/whoami", String::new()),
    ] {
        let url = path.replace("{guid}", "0x0000000000000001").replace("{number}", "1").replace("{id}", "7").replace("{name}", "storage");
        let (status, body) = get(&hub, &format!("{url}?{query}"));
        let text = String::from_utf8_lossy(&body);
        assert_eq!(status, 200, "{path}: {text}");
        let value: Json = serde_json::from_slice(&body).expect("JSON");
        let schema = &api["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"];
        assert!(schema.is_object(), "{path} is not described");
        assert_eq!(faults(&api, schema, &value, path), Vec::<String>::new());
        if let Some(rows) = value["rows"].as_array() {
            assert!(!rows.is_empty(), "{path}");
        }
    }
}

#[test]
fn physical_layer_has_newest_values_ratios_and_series() {
    let hub = filled();
    let (_, body) = get(&hub, "/port/0x0000000000000001/1/physical");
    let answer: Json = serde_json::from_slice(&body).expect("JSON");
    let raw = &answer["ratios"][0];
    assert_eq!(
        (&raw["of_device"], &answer["ratios_seconds"]),
        (&json!(1.5e-8), &json!(60))
    );
    let measured = ["errors", "bits", "ratio"].map(|name| raw["measured"][name].clone());
    assert_eq!(measured, [json!(40), json!(20_000_000), json!(2e-6)]);
    let pages = answer["pages"].as_array().expect("pages");
    let found: Vec<_> = pages.iter().map(|page| page["page"].as_str()).collect();
    let expected = ["ber", "link_down", "module", "sensor", "fan_limits"].map(Some);
    assert_eq!(found, expected);
    // A number that JavaScript cannot hold is a text.
    let lanes = json!([1, 2, u64::MAX.to_string(), 4]);
    assert_eq!(pages[0]["values"]["phy_raw_errors_lane"], lanes);
    assert_eq!(pages[0]["units"]["phy_received_bits"], "bits");
    assert_eq!(pages[2]["units"]["rx_power_uw"], "uW");
    let reason = "reason 23 (cable unplugged), intended: no, blamed: this end";
    let health = &answer["health"];
    assert_eq!(
        (&health["link_down"], &health["serial"]),
        (&json!(reason), &json!("SN7"))
    );
    assert_eq!(answer["module"]["temperature_c"], json!([48.5]));
    // A port that was never read has no pages.
    let (status, body) = get(&hub, "/port/0x0000000000000002/1/physical");
    let answer: Json = serde_json::from_slice(&body).expect("JSON");
    assert_eq!((status, &answer["pages"]), (200, &json!([])));
    assert_eq!(get(&hub, "/port/0x00000000000000ff/1/physical").0, 404);
}

#[test]
fn marks_are_selected_by_node_and_time() {
    let hub = filled();
    let names = |query: &str| {
        let (_, body) = get(&hub, &format!("/marks?{query}"));
        let answer: Json = serde_json::from_slice(&body).expect("JSON");
        let rows = answer["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["name"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(""), ["read", "write", "write", "check"]);
    assert_eq!(names("node=node101%20mlx5_0"), ["read", "write"]);
    assert_eq!(names("node=switch1&node=node103"), ["write", "check"]);
    let range = "&from=1700000100000000000&to=1700000125000000000";
    assert_eq!(names(range), ["write"]);
    // The largest jobs come with them.
    assert_eq!(
        names("jobs=1"),
        ["job 7", "read", "write", "write", "check"]
    );
    assert_eq!(names("jobs=9&node=node103"), ["job 6", "write", "check"]);
    let missing = crate::query::tests::hub(&[]);
    let (_, body) = get(&Arc::new(missing), "/marks");
    let text = String::from_utf8_lossy(&body);
    assert!(text.contains("set the key marks"), "{text}");
}

#[test]
fn every_address_is_described() {
    let api: Json = serde_json::from_str(OPEN_API).expect("JSON");
    let described: Vec<&str> = api["paths"]
        .as_object()
        .expect("paths")
        .keys()
        .map(String::as_str)
        .collect();
    let listed: Vec<&str> = addresses().iter().map(|(address, ..)| *address).collect();
    assert_eq!(described, listed);
    let (hub, mut wrong) = (filled(), Vec::new());
    for path in listed {
        // Each described parameter is known to the address, and no other one is.
        let parameters = api["paths"][path]["get"]["parameters"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        for parameter in parameters
            .iter()
            .filter(|parameter| parameter["in"] == "query")
        {
            let url = path
                .replace("{guid}", "0x0000000000000001")
                .replace("{number}", "1")
                .replace("{id}", "7")
                .replace("{name}", "storage");
            let name = parameter["name"].as_str().expect("a name");
            let text =
                String::from_utf8(get(&hub, &format!("{url}?{name}=")).1).unwrap_or_default();
            if text.contains("there is no parameter") {
                wrong.push(format!("{path}: {name}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn wrong_requests_get_a_reason() {
    let hub = filled();
    for (path, status, reason) in [
        ("/nothing", 404, "there is no address"),
        ("/health?x=1", 400, "there is no parameter x"),
        ("/series", 400, "give port="),
        (
            "/series?port=0x1/1&metric=xmit_gbps",
            400,
            "cannot use the parameter port",
        ),
        (
            "/series?port=0x0000000000000001/1&metric=X",
            400,
            "cannot use the parameter metric",
        ),
        (
            "/series?port=0x00000000000000ff/1&metric=xmit_gbps",
            404,
            "there is no port 0x00000000000000ff/1",
        ),
        (
            "/series?port=0x0000000000000001/1&metric=xmit_gbps&from=9&to=1",
            400,
            "the time range is empty",
        ),
        (
            "/series?port=0x0000000000000001/1&metric=xmit_gbps&from=1&step=1",
            400,
            "more than 1000000 steps",
        ),
        (
            "/heat?metric=port_xmit_pkts",
            400,
            "cannot use the parameter metric",
        ),
        ("/heat?by=switch", 400, "cannot use the parameter by"),
        ("/heat?from=1&step=1", 400, "too many columns"),
        ("/links?by=size", 400, "cannot use the parameter by"),
        (
            "/links?from=1&to=1800000000000000000",
            400,
            "more than 10000000 records",
        ),
        ("/trees?waits=2", 400, "cannot use the parameter waits"),
        ("/errors?threshold=x", 400, "cannot read the threshold"),
        (
            "/events?kind=x",
            400,
            "expected links, devices, counters, samplers, sm, routine (found x)",
        ),
        (
            "/events?limit=1000000",
            400,
            "cannot use the parameter limit",
        ),
        ("/port/0x00000000000000ff/1", 404, "there is no port"),
        ("/jobs?state=x", 400, "cannot use the parameter state"),
        ("/marks?jobs=201", 400, "cannot use the parameter jobs"),
        ("/job/9", 404, "there is no job 9"),
        ("/job/7?from=9&to=1", 400, "the time range is empty"),
        ("/job/9/matrix", 404, "there is no job 9"),
        ("/groups?x=1", 400, "there is no parameter x"),
        ("/group/x", 404, "there is no group x"),
        (
            "/group/storage?from=1&to=2",
            404,
            "there is no rate of a host port",
        ),
        ("/live", 426, "connect with a WebSocket"),
    ] {
        let (found, body) = get(&hub, path);
        let body: Json = serde_json::from_slice(&body).expect("JSON");
        let text = body["error"].as_str().unwrap_or_default();
        assert!(
            found == status && text.contains(reason),
            "{path}: {found} {text}"
        );
    }
}

#[test]
fn page_is_served() {
    let hub = filled();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let respond = |path: &str, etag: Option<String>| {
        let mut request = Request::get(path).header("host", "127.0.0.1:8080");
        if let Some(etag) = etag {
            request = request.header("if-none-match", etag);
        }
        let request = request.body(Body::empty()).expect("a request");
        runtime
            .block_on(router(Arc::clone(&hub), access()).oneshot(request))
            .expect("infallible")
    };
    let response = respond("/", None);
    let etag = response.headers()["etag"]
        .to_str()
        .expect("text")
        .to_owned();
    assert_eq!(
        (
            response.status().as_u16(),
            &response.headers()["content-type"]
        ),
        (200, &"text/html; charset=utf-8".parse().expect("a value"))
    );
    assert_eq!(respond("/", Some(etag)).status().as_u16(), 304);
    assert_eq!(
        (
            respond("/app.js", None).status().as_u16(),
            respond("/no.js", None).status().as_u16()
        ),
        (200, 404)
    );
}
