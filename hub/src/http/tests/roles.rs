//! Calls every address with every role, and looks for names that the role `user` must not see.

use std::path::Path;

use axum::http::Method;
use axum::http::header::AUTHORIZATION;
use ibnet_record::types::{Guid, PortNum};

use super::*;
use crate::alerts::marks::Mark;
use crate::audit::Audit;
use crate::events::EventRow;
use crate::jobs::settle;
use crate::jobs::tests::{job, listing};
use crate::users::Peer;
use crate::users::tests::{file as tokens, proxy};

const START: u64 = 1_700_000_000;
const SECOND: u64 = 1_000_000_000;

/// Roles with their tokens. `None` is a request without a token.
const ROLES: [(&str, Option<&str>); 4] = [
    ("anonymous", None),
    ("user", Some("ada-ada-ada-ada-ada")),
    ("operator", Some("ola-ola-ola-ola-ola")),
    ("admin", Some("eve-eve-eve-eve-eve")),
];
const ADA: Option<&str> = Some("ada-ada-ada-ada-ada");

/// What belongs to another user. `ada` must not see it in any answer.
const OTHERS: [&str; 9] = [
    "node102",
    "node103",
    "80008",
    "60006",
    "secretwork",
    "quietwork",
    "mallory",
    "gone",
    "away77",
];

/// What is the user's own.
const OWN: [&str; 4] = ["node101", "node104", "70007", "weather"];

fn users(folder: &Path) -> Users {
    let text = "ada ada-ada-ada-ada-ada user\nola ola-ola-ola-ola-ola operator\neve eve-eve-eve-eve-eve admin\nold old-old-old-old-old\n";
    let audit = Audit::new(Some(folder.join("audit.jsonl")));
    Users::new(Some(tokens(folder, text)), None, audit)
}

/// Adds jobs of `ada` and of `mallory`, with events, alerts and marks that have their names.
fn add_everything(hub: &Hub) {
    let run = |id: &str, nodes: &str, (from, to): (u64, Option<u64>), who: (&str, &str)| {
        let mut run = job(id, nodes, START + from, to.map(|to| START + to));
        (run.user, run.name) = (Some(who.0.to_owned()), Some(who.1.to_owned()));
        run
    };
    let (ada, mallory) = (("ada", "weather"), ("mallory", "secretwork"));
    let runs = vec![
        run("70007", "node101,node104", (40, None), ada),
        run("80008", "node102,gone", (90, None), mallory),
        run(
            "60006",
            "node103,away77",
            (20, Some(60)),
            ("mallory", "quietwork"),
        ),
        // An ID that the resource manager has used again.
        run("70009", "node101", (10, Some(20)), ada),
        run("70009", "node103", (100, None), mallory),
    ];
    let mut state = hub.write();
    state.jobs.update(listing(runs, (START + 200) * SECOND));
    state.now += Duration::from_secs(60);
    let region = "3.0 s, in which 2 ports waited for 1.0 s in all; \
        jobs that caused it: 80008, 70007; jobs that suffered it: 60006";
    for (event, guid, node, detail) in [
        (
            "congestion_ended",
            Some(Guid(0x102)),
            Some("node102 mlx5_0"),
            region,
        ),
        (
            "input_lost",
            None,
            None,
            "tcp://node102.cluster:9331: refused, mallory",
        ),
        (
            "peer_changed",
            Some(Guid(1)),
            Some("switch1"),
            "node103-ib0 instead of (node101)",
        ),
    ] {
        state.events.add(EventRow {
            guid,
            port: guid.map(|_| PortNum(1)),
            node: node.map(str::to_owned),
            ..EventRow::of_hub((START + 150) * SECOND, event, detail.to_owned())
        });
    }
    drop(state);
    settle::run(hub);
}

fn hub_of_two() -> (tempfile::TempDir, Arc<Hub>) {
    let folder = tempfile::tempdir().expect("a folder");
    let hub = filled_with(users(folder.path()), add_everything);
    let id = hub
        .alerts()
        .machine
        .alerts()
        .next()
        .map(|alert| alert.id.clone());
    let mark = Mark {
        by: "mallory".to_owned(),
        why: "secretwork on node102".to_owned(),
        silent: true,
        at_ns: 1,
        until_ns: u64::MAX,
    };
    assert!(hub.alerts().marks.set(&id.expect("an alert"), mark));
    (folder, hub)
}

/// Returns status, headers and body.
fn call(hub: &Arc<Hub>, method: &Method, path: &str, token: Option<&str>) -> (u16, String, String) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header("host", "hub.example");
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request.body(Body::from("{}")).expect("a request");
        let response = router(Arc::clone(hub), access()).oneshot(request).await;
        let response = response.expect("infallible");
        let status = response.status().as_u16();
        let headers = format!("{:?}", response.headers());
        let body = to_bytes(response.into_body(), usize::MAX)
            .await
            .expect("a body");
        (status, headers, String::from_utf8_lossy(&body).into_owned())
    })
}

fn get_as(hub: &Arc<Hub>, path: &str, token: Option<&str>) -> (u16, String, String) {
    call(hub, &Method::GET, path, token)
}

/// Returns calls of all addresses of `openapi.json`: method, address, and path with a query.
fn all_calls(api: &Json) -> Vec<(Method, String, String)> {
    let range = "from=1700000095000000000&to=1700000155000000000";
    let mut calls = Vec::new();
    for (described, methods) in api["paths"].as_object().expect("paths") {
        let path = described
            .replace("{guid}", "0x0000000000000102")
            .replace("{number}", "1")
            .replace("{name}", "storage");
        let queries: &[&str] = match &*path {
            "/series" => &["port=0x0000000000000102/1&metric=xmit_gbps"],
            "/path" => &[
                "sender=node101&receiver=node104",
                "sender=node101&receiver=0x0000000000000102",
                "sender=0x0000000000000103&receiver=0x0000000000000102",
            ],
            "/jobs" => &["", "job=70007", "limit=1", "state=running"],
            "/ports" => &["", "q=node", "q=switch&limit=2", "node=node101"],
            "/events" => &["", "guid=0x0000000000000102", "kind=links"],
            "/alerts" | "/alerts/mark" | "/audit" | "/cabling" | "/health" | "/topology"
            | "/heat" | "/marks" | "/groups" | "/sm" | "/samplers" | "/timeline"
            | "/links/health" | "/live" | "/whoami" => &[""],
            _ if path.starts_with("/port/") => &[""],
            _ => &["", range],
        };
        for method in methods.as_object().expect("methods").keys() {
            let method: Method = method.to_uppercase().parse().expect("a method");
            for query in queries {
                for id in ["70007", "80008", "70009", "nothing"] {
                    let path = format!("{path}?{query}").replace("{id}", id);
                    let call = (method.clone(), described.clone(), path);
                    if !calls.contains(&call) {
                        calls.push(call);
                    }
                }
            }
        }
    }
    calls
}

/// Returns the strings of others that a text has, without those that the request itself had.
fn seen(text: &str, path: &str) -> Vec<&'static str> {
    let is_seen = |name: &&&str| text.contains(**name) && !path.contains(**name);
    OTHERS.iter().filter(is_seen).copied().collect()
}

#[test]
fn no_answer_names_the_jobs_users_and_hosts_of_others() {
    let (_folder, hub) = hub_of_two();
    let (mut own, mut all) = (String::new(), String::new());
    let mut leaks = Vec::new();
    let api: Json = serde_json::from_str(OPEN_API).expect("JSON");
    for (method, described, path) in all_calls(&api) {
        for (role, token) in ROLES {
            let (status, headers, body) = call(&hub, &method, &path, token);
            let is_write = method == Method::POST;
            match role {
                "anonymous" => assert_eq!(status, 401, "{path}"),
                "user" if is_write => assert_eq!(status, 403, "{path}"),
                "user" if path.starts_with("/job/") && !path.starts_with("/job/70007") => {
                    assert_eq!(status, 404, "{path}");
                }
                "user" | "operator" if path.starts_with("/audit") => {
                    assert_eq!(status, 403, "{role} {path}");
                }
                // The body `{}` is no mark.
                _ if is_write => assert_eq!(status, 400, "{path}: {body}"),
                _ if path.starts_with("/live") => assert_eq!(status, 426, "{path}"),
                _ if path.starts_with("/job/nothing") => assert_eq!(status, 404, "{path}"),
                _ => assert_eq!(status, 200, "{role} {path}: {body}"),
            }
            if ["anonymous", "user"].contains(&role) {
                let found = seen(&(headers + &body), &path);
                if !found.is_empty() {
                    leaks.push(format!("{role} {method} {path}: {found:?} in {body}"));
                }
                let schema = &api["paths"][&described]["get"]["responses"]["200"]["content"]["application/json"]
                    ["schema"];
                if let (200, true, Ok(value)) = (
                    status,
                    schema.is_object(),
                    serde_json::from_str::<Json>(&body),
                ) {
                    assert_eq!(faults(&api, schema, &value, &path), Vec::<String>::new());
                }
                own += &body;
            } else {
                all += &body;
            }
        }
    }
    assert!(leaks.is_empty(), "{}", leaks.join("\n"));
    for name in OWN {
        assert!(own.contains(name), "the user does not see {name}");
    }
    assert!(own.contains("other job") && own.contains("other-host-"));
    // The test has what it looks for.
    assert_eq!(seen(&all, ""), OTHERS);
}

/// A query with a hidden name is answered as one with a name that does not exist.
#[test]
fn no_query_tells_whether_a_name_exists() {
    let (_folder, hub) = hub_of_two();
    let api: Json = serde_json::from_str(OPEN_API).expect("JSON");
    let mut differing = Vec::new();
    let mut compare = |path: &str, hidden: &str| {
        // As long as the hidden name, and nobody's.
        let other = |c: char| if c.is_ascii_digit() { '4' } else { 'z' };
        let unknown: String = hidden.chars().map(other).collect();
        let answer = |name: &str| {
            let (status, headers, body) = get_as(&hub, &path.replace("{}", name), ADA);
            // An error repeats what was asked.
            let body = if status == 200 {
                body
            } else {
                body.replace(name, "*")
            };
            (status, headers, body)
        };
        if answer(hidden) != answer(&unknown) {
            differing.push(format!("{path} {hidden}"));
        }
    };
    for hidden in OTHERS {
        for (path, of) in api["paths"].as_object().expect("paths") {
            let fixed = path
                .replace("{guid}", "0x0000000000000001")
                .replace("{number}", "1")
                .replace("{id}", "70007")
                .replace("{name}", "storage");
            let parameters = of["get"]["parameters"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            // Another number is another question.
            let is_text = |parameter: &&Json| {
                let is_number = parameter["schema"]["type"] == "integer";
                let is_time = ["from", "to"].iter().any(|name| parameter["name"] == *name);
                parameter["in"] == "query" && !is_number && !is_time
            };
            for parameter in parameters.iter().filter(is_text) {
                let name = parameter["name"].as_str().expect("a name");
                compare(&format!("{fixed}?{name}={{}}"), hidden);
            }
            compare(&format!("{fixed}?{{}}=1"), hidden);
        }
        for path in [
            "/job/{}",
            "/job/{}/matrix",
            "/job/{}?from=9&to=1",
            "/group/{}",
            "/port/{}/1",
            "/{}",
            "/path?sender={}&receiver=node101",
            "/path?sender=node101&receiver={}",
            "/ports?q={}&limit=1",
            "/jobs?q={}&limit=1",
            "/jobs?q={}&job=70007",
        ] {
            compare(path, hidden);
        }
        // Parts of a name.
        compare("/ports?q={}", &hidden[1..]);
        compare("/jobs?q={}", &hidden[..3]);
    }
    differing.retain(|call| {
        // A part of a name that own things have too.
        !["nod", "700"].iter().any(|part| call.ends_with(part))
    });
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

#[test]
fn own_things_are_found_and_counted() {
    let (_folder, hub) = hub_of_two();
    let json = |path: &str| -> Json {
        let (status, _, body) = get_as(&hub, path, ADA);
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).expect("JSON")
    };
    let jobs = json("/jobs");
    let ids = |answer: &Json| -> Vec<String> {
        let rows = answer["rows"].as_array().expect("rows").iter();
        rows.map(|row| row["job"].to_string()).collect()
    };
    assert_eq!(ids(&jobs), ["\"70007\"", "\"70009\""]);
    assert_eq!((&jobs["running"], &jobs["known"]), (&json!(1), &json!(2)));
    assert_eq!(ids(&json("/jobs?q=node104")), ["\"70007\""]);
    assert_eq!(ids(&json("/jobs?limit=1")).len(), 1);
    let own = json("/job/70007");
    assert_eq!(
        (&own["user"], &own["nodes"]),
        (&json!("ada"), &json!("node101,node104"))
    );
    let neighbours = own["neighbours"].as_array().expect("rows");
    assert!(!neighbours.is_empty());
    assert!(
        neighbours
            .iter()
            .all(|row| row["job"] == "other job" && row["user"].is_null())
    );
    // Of the marks of an application, one began in the own job and has only its hosts.
    let marks = json("/marks");
    let names = marks["rows"].as_array().expect("rows").iter();
    let names: Vec<_> = names.map(|mark| (&mark["name"], &mark["nodes"])).collect();
    assert_eq!(names, [(&json!("write"), &json!("node104"))]);
    assert_eq!(own["phases"].as_array().expect("rows").len(), 1);
    let ports = json("/ports?q=node10");
    let nodes: Vec<_> = ports["rows"].as_array().expect("rows").iter().collect();
    assert!(!nodes.is_empty());
    for row in nodes {
        let is_own = |name: &str| {
            row[name]
                .as_str()
                .is_some_and(|name| name.starts_with("node10"))
        };
        assert!(is_own("node") || is_own("peer_node"), "{row}");
    }
    // A hidden host has the same name in each answer.
    let node = |row: &Json| row["guid"] == "0x0000000000000102";
    let all = [
        json("/topology")["devices"].clone(),
        json("/ports")["rows"].clone(),
    ];
    let names = all.map(|rows| {
        let found = rows
            .as_array()
            .expect("rows")
            .iter()
            .find(|row| node(row))
            .cloned();
        found.expect("the host")["node"].clone()
    });
    assert!(names[0] == names[1] && names[0] != "other-host-");
    assert_eq!(json("/whoami"), json!({"name": "ada", "role": "user"}));
    // The head of an answer has no length of the whole answer.
    let (status, headers, body) = call(&hub, &Method::HEAD, "/topology", ADA);
    let whole = get_as(&hub, "/topology", ADA).2.len();
    let length = format!("\"content-length\": \"{whole}\"");
    assert_eq!((status, &*body, headers.contains(&length)), (200, "", true));
}

#[test]
fn operators_mark_alerts_and_the_audit_log_has_it() {
    let (folder, hub) = hub_of_two();
    let id = hub
        .alerts()
        .machine
        .alerts()
        .next()
        .expect("an alert")
        .id
        .clone();
    let post = |token: &str, body: Json| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(async {
            let request = Request::post("/api/v1/alerts/mark")
                .header("host", "hub.example")
                .header(AUTHORIZATION, format!("Bearer {token}"))
                .body(Body::from(body.to_string()))
                .expect("a request");
            let response = router(Arc::clone(&hub), access()).oneshot(request).await;
            response.expect("infallible").status().as_u16()
        })
    };
    let mark = |silent: bool, until_ns: u64| json!({"id": id, "why": "at the vendor", "silent": silent, "until_ns": until_ns});
    let later = super::super::values::now_ns() + 3600 * SECOND;
    assert_eq!(post("ada-ada-ada-ada-ada", mark(true, later)), 403);
    assert_eq!(post("old-old-old-old-old", mark(true, later)), 401);
    assert_eq!(post("ola-ola-ola-ola-ola", mark(true, later)), 200);
    assert_eq!(post("eve-eve-eve-eve-eve", mark(true, 0)), 200);
    assert_eq!(post("ola-ola-ola-ola-ola", mark(false, later)), 200);
    assert_eq!(get_as(&hub, "/health", Some("wrong-wrong-wrong")).0, 401);
    // Entries of logins are written by another thread.
    let entries = || -> Vec<(String, String)> {
        let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).unwrap_or_default();
        let parse = |line| -> Json { serde_json::from_str(line).expect("JSON") };
        let pair = |entry: Json| {
            let text = |name: &str| entry[name].as_str().unwrap_or_default().to_owned();
            (text("what"), text("who"))
        };
        text.lines().map(parse).map(pair).collect()
    };
    let mut expected = [
        ("login", "ada"),
        ("login", "eve"),
        ("login", "ola"),
        ("login_failed", ""),
        ("login_failed", ""),
        ("seen", "ola"),
        ("silence", "ola"),
        ("unsilence", "eve"),
    ]
    .map(|(what, who)| (what.to_owned(), who.to_owned()));
    expected.sort();
    while entries().len() < expected.len() {
        std::thread::yield_now();
    }
    let mut found = entries();
    found.sort();
    assert_eq!(found, expected);
    let text = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("a file");
    assert!(!text.contains("ola-ola"), "{text}");
    // An admin reads it, and nobody else does.
    assert_eq!(get_as(&hub, "/audit", Some("ola-ola-ola-ola-ola")).0, 403);
    assert_eq!(get_as(&hub, "/audit", ADA).0, 403);
    let (status, _, body) = get_as(&hub, "/audit", Some("eve-eve-eve-eve-eve"));
    assert_eq!(status, 200, "{body}");
    let api: Json = serde_json::from_str(OPEN_API).expect("JSON");
    let found: Json = serde_json::from_str(&body).expect("JSON");
    let schema = &api["components"]["schemas"]["Audit"];
    assert_eq!(faults(&api, schema, &found, "/audit"), Vec::<String>::new());
    let rows = found["rows"].as_array().expect("rows");
    let silence = rows
        .iter()
        .find(|row| row["what"] == "silence")
        .expect("a row");
    assert_eq!(
        (&silence["who"], &silence["about"], &silence["why"]),
        (&json!("ola"), &json!(id), &json!("at the vendor"))
    );
}

#[test]
fn proxy_may_end_tls_and_nobody_else() {
    let users = Users::new(None, Some(proxy()), Audit::default());
    let hub = Arc::new(hub(&[]).with_users(users));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let status = |peer: [u8; 4]| {
        let mut request = Request::get("/api/v1/whoami")
            .header("host", "hub.example")
            .header("origin", "https://hub.example")
            .header("x-remote-user", "ada")
            .body(Body::empty())
            .expect("a request");
        request.extensions_mut().insert(Peer(peer.into()));
        let response = runtime.block_on(router(Arc::clone(&hub), access()).oneshot(request));
        response.expect("infallible").status().as_u16()
    };
    assert_eq!((status([10, 0, 0, 9]), status([10, 0, 0, 8])), (200, 401));
}

/// A new field with strings needs a rule before users see it.
#[test]
fn every_field_with_strings_has_a_rule() {
    /// Fields with a rule of their own, and those that users do not see.
    const OTHER_RULE: [&str; 14] = [
        "about",
        "address",
        "first_malformed",
        "folder",
        "receiver",
        "by",
        "hosts",
        "input",
        "job",
        "label",
        "line",
        "name",
        "user",
        "who",
    ];
    fn strings(name: &str, schema: &Json, found: &mut Vec<String>) {
        let types = match &schema["type"] {
            Json::Array(types) => types.clone(),
            one => vec![one.clone()],
        };
        if types.contains(&json!("string")) {
            found.push(name.to_owned());
        }
        for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
            strings(name, schema, found);
        }
        let parts = [&schema["items"], &schema["additionalProperties"]];
        let any = schema["anyOf"].as_array().into_iter().flatten();
        for part in parts.into_iter().chain(any).filter(|part| part.is_object()) {
            strings(name, part, found);
        }
    }
    let api: Json = serde_json::from_str(OPEN_API).expect("JSON");
    let mut found = Vec::new();
    for (name, schema) in api["components"]["schemas"].as_object().expect("schemas") {
        strings(name, schema, &mut found);
    }
    // The values of counters are fields of the maps `counters` and `values`.
    found.retain(|name| name != "CounterValue");
    found.retain(|name| !super::super::others::RULES.contains_key(name.as_str()));
    found.retain(|name| !OTHER_RULE.contains(&name.as_str()));
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{found:?}");
}
