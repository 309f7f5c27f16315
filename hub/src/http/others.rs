//! What the role `user` sees: the fabric and the own jobs. Jobs, users and hosts of others are
//! hidden here, in every answer of the API, before it is sent.
//!
//! - A name is shown if it is that of a switch, or of a host of an own job. Any other host has a
//!   name such as `other-host-3f2a91c0`, which is the same until the hub ends. It follows from a
//!   secret of the process, so names cannot be tried.
//! - A string whose field is in none of the lists below is removed, so a new field shows nothing
//!   before it has a rule.
//! - A query cannot ask for a hidden name: [`serve`] replaces every name that is not shown, whether
//!   it exists or not, before the query is computed. A search runs over the filtered answer.

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};

use axum::RequestExt as _;
use axum::body::to_bytes;
use axum::extract::{RawPathParams, Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use axum::http::{Method, StatusCode, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use ibnet::metrics::Role;
use ibnet_analysis::hosts::{Hosts, host_of};
use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::job::sharing::OTHERS;
use ibnet_record::types::{Guid, Printable};
use rustc_hash::FxHashMap;
use serde_json::{Map, Value};

use super::answer::Answer;
use super::app::App;
use super::known::{Known, LastKnown, other_host, words};
use super::lists::{MAX_ROWS, USUAL_LIMIT};
use super::places::Weight;
use crate::alerts::watch::JOBS_OF_REGION;
use crate::query::error::ApiError;
use crate::query::jobs::missing;
use crate::state::Hub;
use crate::users::Identity;

/// How an address serves the role `user`, and others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Served {
    /// The answer has no names.
    Whole,
    Filtered,
    Refused,
    /// Only the role `admin` gets the answer.
    ToAdmin,
}

/// Replaces the ID of a job of another user.
const OTHER_JOB: &str = "other job";

/// Stands for a name in a query that is not shown to the user.
const UNLISTED: &str = "name-that-is-not-shown-";

/// What is done with the strings of a field. Those of other fields are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    /// They are words of ibnet, numbers of devices, or names of the configuration.
    Plain,
    /// They are names of devices and hosts.
    Name,
    /// They are sentences, in which known names are replaced.
    Text,
    /// The whole field is emptied.
    Empty,
}

/// The rules by the names of the fields.
pub(super) static RULES: LazyLock<FxHashMap<&'static str, Rule>> = LazyLock::new(|| {
    let rules = [
        (
            Rule::Plain,
            "alert ca confidence counters ends event fabric finding guid identity kind kinds \
         limits_by link link_source link_speed_active link_width_active metric page part \
         peer_guid port_state ratio role runbook saturated serial severity source stat state status \
         unit units vendor verdict version what",
        ),
        (
            Rule::Name,
            "changing from from_leaf host left_out missing node nodes partial peer \
         peer_node sampler title to to_leaf unknown",
        ),
        (
            Rule::Text,
            "changed detail error group id link_down port reason region summary text values \
         why worth",
        ),
        (
            Rule::Empty,
            "archive inputs marks_error part_page receivers",
        ),
    ];
    let fields =
        |(rule, fields): (_, &'static str)| fields.split(' ').map(move |field| (field, rule));
    rules.into_iter().flat_map(fields).collect()
});

/// What a user may see.
struct Viewer {
    name: String,
    known: Arc<Known>,
    /// The jobs of the user, their hosts, and the IDs whose last start is one of them.
    own: Vec<JobRun>,
    hosts: BTreeSet<String>,
    jobs: BTreeSet<String>,
}

/// Serves an address as the role of the sender permits.
pub(crate) async fn serve(
    State((app, address, served)): State<(App, &'static str, Served)>,
    request: Request,
    next: Next,
) -> Response {
    let identity = request.extensions().get::<Identity>().cloned();
    let served = match *request.method() {
        Method::GET | Method::HEAD => served,
        _ => Served::Refused,
    };
    match (identity, served) {
        (Some(identity), Served::ToAdmin) if identity.role < Role::Admin => forbidden(),
        (Some(identity), _) if identity.role >= Role::Operator => next.run(request).await,
        (Some(_), Served::Whole) => next.run(request).await,
        (Some(identity), Served::Filtered) => filtered(app, address, identity, request, next)
            .await
            .unwrap_or_else(IntoResponse::into_response),
        _ => forbidden(),
    }
}

fn forbidden() -> Response {
    ApiError {
        status: StatusCode::FORBIDDEN,
        reason: "the role of the user does not permit this".to_owned(),
    }
    .into_response()
}

async fn filtered(
    app: App,
    address: &'static str,
    identity: Identity,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let stopped = |_| ApiError::failed("the query failed; the log of the hub has the reason");
    let (hub, known) = (Arc::clone(&app.hub), Arc::clone(&app.known));
    let name = identity.name.unwrap_or_default();
    let place = app.places.take(Weight::Short).await?;
    let viewer = tokio::task::spawn_blocking(move || {
        let viewer = Viewer::of(&hub, &known, name);
        drop(place);
        viewer
    });
    let viewer = viewer.await.map_err(stopped)?;
    let headers = request.headers().clone();
    // Otherwise the length of the whole answer would be in the header.
    *request.method_mut() = Method::GET;
    request.headers_mut().clear();
    let in_address = request.extract_parts::<RawPathParams>().await;
    let in_address: Vec<String> = in_address
        .iter()
        .flatten()
        .map(|(_, of)| of.to_owned())
        .collect();
    let asked = Asked::of(address, request.uri(), in_address, &viewer)?;
    *request.uri_mut() = asked.uri.clone();
    let (parts, body) = next.run(request).await.into_parts();
    let is_json = parts
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|kind| kind == "application/json");
    if !is_json {
        return Err(ApiError::failed("this answer has no filter for users"));
    }
    let body = to_bytes(body, usize::MAX)
        .await
        .map_err(|_| ApiError::failed("the answer cannot be read"))?;
    let place = app.places.take(Weight::Short).await?;
    let status = parts.status;
    let answer = tokio::task::spawn_blocking(move || {
        let mut value: Value = serde_json::from_slice(&body)
            .map_err(|_| ApiError::failed("the answer cannot be read"))?;
        if status.is_success() {
            viewer.filter("", &mut value);
            asked.search(&mut value);
        } else if let Some(error) = value.get_mut("error") {
            let text = error.as_str().unwrap_or_default();
            *error = asked.with_names(&viewer.text(text, &asked.words)).into();
        }
        drop(place);
        Ok(Answer::json(&value)?.respond(&headers))
    });
    let mut response = answer.await.map_err(stopped)??;
    *response.status_mut() = status;
    for (name, value) in &parts.headers {
        if !response.headers().contains_key(name) && name != CONTENT_LENGTH {
            response.headers_mut().insert(name, value.clone());
        }
    }
    Ok(response)
}

/// A query of a user, without the names that the user does not see.
struct Asked {
    address: &'static str,
    uri: Uri,
    /// Names that were replaced, in the order of their numbers.
    names: Vec<String>,
    /// The words of the query in lower case: an error may repeat them.
    words: BTreeSet<String>,
    /// Text of a search, and number of its rows.
    text: String,
    limit: Option<usize>,
}

impl Asked {
    /// `in_address` has the parts of the address that are not fixed.
    fn of(
        address: &'static str,
        uri: &Uri,
        in_address: Vec<String>,
        viewer: &Viewer,
    ) -> Result<Self, ApiError> {
        let query = uri.query().unwrap_or_default();
        let given: Vec<(String, String)> = form_urlencoded::parse(query.as_bytes())
            .into_owned()
            .collect();
        let is_hidden = |id: &&String| !viewer.jobs.contains(*id);
        let job = in_address.first().filter(|_| address.starts_with("/job/"));
        if let Some(id) = job.filter(is_hidden) {
            return Err(missing(id));
        }
        let of_given = given.iter().flat_map(|(name, value)| [name, value]);
        let words = of_given.chain(&in_address).flat_map(|text| words(text));
        let mut asked = Self {
            address,
            uri: uri.clone(),
            names: Vec::new(),
            words: words.map(str::to_lowercase).collect(),
            text: String::new(),
            limit: None,
        };
        let once = |name: &str| given.iter().filter(|(given, _)| given == name).count() == 1;
        let is_searched = address == "/jobs" || (address == "/ports" && once("q"));
        let mut query = form_urlencoded::Serializer::new(String::new());
        for (name, value) in &given {
            let limit = value.parse().ok().filter(|limit| *limit <= MAX_ROWS);
            match &**name {
                "q" if is_searched && once("q") => value.trim().clone_into(&mut asked.text),
                "limit" if is_searched && once("limit") && limit.is_some() => asked.limit = limit,
                "node" | "sender" | "receiver" if !viewer.may_name(value) => {
                    let unlisted = format!("{UNLISTED}{}", asked.names.len());
                    asked.names.push(value.clone());
                    query.append_pair(name, &unlisted);
                }
                _ => drop(query.append_pair(name, value)),
            }
        }
        if is_searched && (asked.limit.is_some() || !given.iter().any(|(name, _)| name == "limit"))
        {
            query.append_pair("limit", &MAX_ROWS.to_string());
            asked.limit.get_or_insert(USUAL_LIMIT);
        }
        asked.uri = format!("{}?{}", uri.path(), query.finish())
            .parse()
            .map_err(|_| ApiError::wrong("the query is not valid"))?;
        Ok(asked)
    }

    /// Returns a text with the names of the query in their places.
    fn with_names(&self, text: &str) -> String {
        let names = self.names.iter().enumerate();
        names.fold(text.to_owned(), |text, (number, name)| {
            text.replace(&format!("{UNLISTED}{number}"), &Printable(name).to_string())
        })
    }

    /// Selects the rows that have the text of a search, by the rules of the addresses.
    fn search(&self, answer: &mut Value) {
        let (Some(limit), Some(Value::Array(rows))) = (self.limit, answer.get_mut("rows")) else {
            return;
        };
        let text = self.text.to_lowercase();
        let parts: &[&str] = match self.address {
            "/jobs" => &["job", "name", "user", "nodes"],
            _ => &["node", "peer_node"],
        };
        rows.retain(|row| {
            let of = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default();
            let has_host = || {
                let hosts = Hosts::parse(of("nodes"));
                hosts.is_ok_and(|hosts| hosts.iter().any(|host| host.eq_ignore_ascii_case(&text)))
            };
            text.is_empty()
                || parts
                    .iter()
                    .any(|name| of(name).to_lowercase().contains(&text))
                || of("guid") == text
                || row
                    .get("lid")
                    .and_then(Value::as_u64)
                    .is_some_and(|lid| text.parse() == Ok(lid))
                || has_host()
        });
        rows.truncate(limit);
    }
}

impl Viewer {
    fn of(hub: &Hub, last: &LastKnown, name: String) -> Self {
        let known = Known::of(hub, last);
        let state = hub.read();
        let is_own = |run: &&JobRun| run.user.as_ref() == Some(&name);
        let runs = state.jobs.within(0, u64::MAX).map(|job| &job.run);
        let own: Vec<JobRun> = runs.filter(is_own).cloned().collect();
        let hosts = own.iter().flat_map(|run| run.hosts.iter());
        let is_last = |run: &&JobRun| {
            let last = state.jobs.find(&run.id);
            last.is_some_and(|last| last.run.user == run.user)
        };
        let last = own.iter().filter(is_last);
        Self {
            hosts: hosts.map(str::to_lowercase).collect(),
            jobs: last.map(|run| run.id.clone()).collect(),
            name,
            known,
            own,
        }
    }

    fn is(&self, user: &Value) -> bool {
        user.as_str() == Some(&self.name)
    }

    fn shows(&self, node: &str) -> bool {
        self.hosts.contains(&host_of(node).to_lowercase())
            || self.known.fabric.contains(&node.to_lowercase())
    }

    /// Returns whether a query may have this name.
    fn may_name(&self, name: &str) -> bool {
        self.shows(name) || name.parse::<Guid>().is_ok()
    }

    fn node(&self, node: &str) -> String {
        match node {
            "" | "hub" | OTHERS => node.to_owned(),
            _ if self.shows(node) => node.to_owned(),
            _ => other_host(host_of(node)),
        }
    }

    /// Returns a text in which the names of other hosts are replaced, except the `given` words.
    fn text(&self, text: &str, given: &BTreeSet<String>) -> String {
        let odd = self.known.odd.iter().filter(|odd| !self.shows(odd));
        let text = odd.fold(text.to_owned(), |text, odd| {
            text.replace(odd, &other_host(odd))
        });
        let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
        for word in words(&text) {
            let at = word.as_ptr() as usize - text.as_ptr() as usize;
            shown.push_str(&text[end..at]);
            end = at + word.len();
            let host = word.to_lowercase();
            // With a domain, or with the suffix of a rail.
            let short = host.split('.').next().unwrap_or_default();
            let plain = short.rsplit_once('-').map_or(short, |(name, _)| name);
            let name = [&*host, short, plain]
                .into_iter()
                .find(|name| self.known.hosts.contains(*name));
            match name.filter(|name| !self.hosts.contains(*name) && !given.contains(&host)) {
                Some(name) => shown.push_str(&other_host(name)),
                None => shown.push_str(word),
            }
        }
        shown.push_str(&text[end..]);
        self.without_jobs(shown)
    }

    /// Replaces the jobs in the text of a region.
    fn without_jobs(&self, mut text: String) -> String {
        for start in JOBS_OF_REGION {
            let Some(at) = text.find(start).map(|at| at + start.len()) else {
                continue;
            };
            let end = text[at..]
                .find("; ")
                .map_or(text.len(), |length| at + length);
            let jobs: Vec<&str> = text[at..end].split(", ").map(|job| self.job(job)).collect();
            text.replace_range(at..end, &jobs.join(", "));
        }
        text
    }

    fn job<'a>(&self, id: &'a str) -> &'a str {
        if self.jobs.contains(id) {
            id
        } else {
            OTHER_JOB
        }
    }

    /// Filters a value of a field. Returns whether its array keeps it.
    fn filter(&self, field: &str, value: &mut Value) -> bool {
        match (RULES.get(field), value) {
            (Some(Rule::Empty), Value::Array(values)) => values.clear(),
            (Some(Rule::Empty), value) => *value = Value::Null,
            (Some(Rule::Plain), Value::String(_)) => {}
            (rule, Value::String(text)) => {
                *text = match rule {
                    Some(Rule::Name) => self.node(text),
                    Some(Rule::Text) => self.text(text, &BTreeSet::new()),
                    _ if field == "job" => self.job(text).to_owned(),
                    _ => String::new(),
                }
            }
            (rule, Value::Array(values)) => {
                values.retain_mut(|value| self.filter(field, value));
                if rule == Some(&Rule::Name) {
                    // The names had an order that depends on them.
                    values.sort_by(|a, b| a.as_str().cmp(&b.as_str()));
                }
            }
            (_, Value::Object(fields)) => return self.filter_object(field, fields),
            _ => {}
        }
        true
    }

    fn filter_object(&self, field: &str, fields: &mut Map<String, Value>) -> bool {
        if field == "node_errors" {
            let errors = std::mem::take(fields).into_iter();
            fields.extend(errors.map(|(host, value)| (self.node(&host), value)));
            return true;
        }
        let has = |names: &[&str]| names.iter().all(|name| fields.contains_key(*name));
        let is_job = has(&["job", "user"]);
        let is_own = is_job && self.is(&fields["user"]);
        if is_job && !is_own {
            hide_job(fields);
            return field != "rows";
        }
        if has(&["nodes", "name", "start_ns"]) && !is_job {
            if let Some(by) = fields.get_mut("by").filter(|by| !self.is(by)) {
                *by = Value::Null;
            }
            return self.has_mark(fields);
        }
        // The text of an event of a sampler or of the hub can have any name.
        let is_of_sampler = fields.get("guid").is_some_and(Value::is_null);
        // The reason of a marked alert is written by people.
        let (is_mark, is_cable) = (has(&["silent"]), has(&["guid"]));
        let is_jobs = has(&["known", "running"]);
        let is_fixed = has(&["unit"]) || has(&["times"]);
        let is_map = ["counters", "kinds", "units", "values"].contains(&field);
        for (name, value) in fields.iter_mut() {
            let rule = match (name.as_str(), &mut *value) {
                ("detail", _) if is_of_sampler => "",
                ("why", _) if is_mark => "",
                ("text", Value::String(text)) if is_of_sampler => {
                    text.truncate(text.find([':', ' ']).unwrap_or(text.len()));
                    continue;
                }
                ("running", Value::Number(running)) => {
                    *running = self
                        .own
                        .iter()
                        .filter(|run| run.to.is_none())
                        .count()
                        .into();
                    continue;
                }
                ("known", Value::Number(known)) if is_jobs => {
                    *known = self.own.len().into();
                    continue;
                }
                ("markable", _) => {
                    *value = false.into();
                    continue;
                }
                ("job" | "name" | "nodes" | "user", _) if is_own => continue,
                ("name", _) if is_cable => "node",
                ("name", _) if is_fixed => continue,
                _ if is_map => field,
                (name, _) => name,
            };
            self.filter(rule, value);
        }
        // The phases are those of the marks that are shown.
        if let [Some(Value::Array(marks)), Some(Value::Array(phases))] =
            ["marks", "phases"].map(|name| fields.get(name).cloned())
        {
            let is_shown = |phase: &Value| marks.iter().any(|mark| mark["name"] == phase["name"]);
            fields["phases"] = phases.into_iter().filter(is_shown).collect();
        }
        true
    }

    /// Returns whether a mark of applications belongs to an own job: it began while the job ran,
    /// and has only hosts of the job.
    fn has_mark(&self, mark: &Map<String, Value>) -> bool {
        let nodes = mark["nodes"]
            .as_str()
            .and_then(|nodes| Hosts::parse(nodes).ok());
        let (Some(nodes), Some(start)) = (nodes, mark["start_ns"].as_u64()) else {
            return false;
        };
        let is_whole = |run: &&JobRun| nodes.iter().all(|node| run.hosts.contains_node(node));
        let is_within = |run: &JobRun| {
            run.from.is_some_and(|from| start >= from) && run.to.is_none_or(|to| start < to)
        };
        nodes.patterns().next().is_none() && self.own.iter().filter(is_whole).any(is_within)
    }
}

/// Hides the job of another user.
fn hide_job(fields: &mut Map<String, Value>) {
    for (name, value) in fields {
        match (name.as_str(), &mut *value) {
            ("job", _) => *value = OTHER_JOB.into(),
            ("nodes", Value::String(nodes)) => nodes.clear(),
            ("state", _) => {}
            (_, Value::String(_)) => *value = Value::Null,
            (_, Value::Array(values)) => values.clear(),
            _ => {}
        }
    }
}
