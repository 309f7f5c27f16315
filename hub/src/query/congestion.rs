//! Returns congestion trees, each with its regions and the jobs in them.

use std::cmp::Reverse;
use std::sync::Arc;

use ibnet_analysis::job::run::JobRun;
use ibnet_analysis::trees::{Limits, RegionRow, RootCause, Tree, TreeRow, Trees};
use serde::Serialize;

use crate::query::evaluated::Evaluated;
use crate::state::Hub;

/// A congestion tree of a time range.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct CongestionRow {
    #[serde(flatten)]
    pub(crate) tree: TreeRow,
    /// The regions of the root in the time range, the last one first.
    regions: Vec<RegionRow>,
}

/// Returns the first `top` trees of a time range; 0 means all. With `settled_ns`, those of unclear
/// cause are left out that began at this time or later.
pub(crate) fn trees(
    hub: &Hub,
    found: &Evaluated,
    limits: Limits,
    top: usize,
    settled_ns: Option<u64>,
) -> Vec<CongestionRow> {
    let other;
    let congestion = if limits == Limits::default() {
        found.congestion(hub)
    } else {
        other = found.search(limits, Trees::no_regions());
        &other
    };
    let (trees, regions) = (&congestion.trees, &congestion.regions);
    let runs = runs(hub, regions);
    let routes = hub.forwarding().ok();
    let routes = routes
        .as_ref()
        .map(|(routes, _)| (Arc::as_ref(routes), found.ports()));
    let by_root = regions.by_root();
    let row = |tree: &Tree| {
        let of_root = by_root.get(&(tree.root, tree.cause));
        let mut of_root = of_root.cloned().unwrap_or_default();
        of_root.sort_by_key(|region| Reverse(region.span_ns));
        let row = |region| regions.region(region, &runs, routes);
        CongestionRow {
            tree: trees.row(tree),
            regions: of_root.into_iter().map(row).collect(),
        }
    };
    let is_settled = |tree: &&Tree| {
        tree.cause != RootCause::Unclear
            || settled_ns.is_none_or(|settled| tree.span_ns.0 < settled)
    };
    let most = if top == 0 { usize::MAX } else { top };
    let first = trees.trees.iter().take(most);
    first.filter(is_settled).map(row).collect()
}

/// Returns the jobs that ran in the time of the regions.
pub(crate) fn runs(hub: &Hub, regions: &Trees) -> Vec<JobRun> {
    let spans = regions.trees.iter().map(|tree| tree.span_ns);
    let span = spans.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    let Some((from, to)) = span else {
        return Vec::new();
    };
    let state = hub.read();
    let runs = state.jobs.within(from, to).map(|known| known.run.clone());
    runs.collect()
}
