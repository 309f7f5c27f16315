//! The HTTP server: the web page, the API, and the slot stream.
//!
//! | module | contents |
//! |---|---|
//! | [`server`] | connections and their limits |
//! | [`access`] | who may connect: host name, origin, password |
//! | [`routes`] | the addresses of the API |
//! | [`values`] | health, topology, and values over time |
//! | [`lists`] | links, trees, errors, events, ports, samplers |
//! | [`alerts`] | alerts |
//! | [`audit`] | the newest entries of the audit log |
//! | [`groups`] | groups of hosts |
//! | [`jobs`] | jobs |
//! | [`marks`] | marks over time |
//! | [`posting`] | who posts a request, and what |
//! | [`app`] | state that all handlers share |
//! | [`places`] | limits how many queries run at the same time |
//! | [`params`] | parameters of a request |
//! | [`others`], [`known`] | hides the jobs, users and hosts of others |
//! | [`answer`] | JSON, bytes and errors |
//! | [`live`] | the slot stream |
//! | [`assets`] | the files of the web page |

pub(crate) mod access;
mod alerts;
pub(crate) mod answer;
pub(crate) mod app;
pub(crate) mod assets;
mod audit;
mod groups;
mod jobs;
mod known;
pub(crate) mod lists;
pub(crate) mod live;
mod marks;
mod others;
pub(crate) mod params;
pub(crate) mod places;
mod posting;
pub(crate) mod routes;
pub(crate) mod server;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod values;
