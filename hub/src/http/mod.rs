//! The HTTP server: the page, the interface for programs, and the stream of slots.
//!
//! | module | contents |
//! |---|---|
//! | [`server`] | connections and their limits |
//! | [`access`] | who may connect: host name, origin, password |
//! | [`routes`] | the addresses of the interface |
//! | [`values`] | health, topology, and values over time |
//! | [`lists`] | links, trees, errors, events, ports, samplers |
//! | [`groups`] | groups of hosts |
//! | [`jobs`] | jobs |
//! | [`app`] | state that all handlers share |
//! | [`places`] | the places of short and of long queries |
//! | [`params`] | parameters of a request |
//! | [`answer`] | JSON, octets and errors |
//! | [`live`] | the stream of slots |
//! | [`assets`] | the files of the page |

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod app;
pub(crate) mod assets;
mod groups;
mod jobs;
pub(crate) mod lists;
pub(crate) mod live;
pub(crate) mod params;
pub(crate) mod places;
pub(crate) mod routes;
pub(crate) mod server;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod values;
