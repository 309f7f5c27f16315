//! Compares ibnet with libibmad on the devices of a site: `ibnet-sweep verify` (feature `umad`).
//!
//! Each attribute of a device is read three times in a row: by ibnet, by a second reader, and by
//! ibnet again. The second reader is libibmad. On the simulated fabric it is a second client of
//! ibnet, whose replies libibmad decodes. The readings are then compared, field by field:
//!
//! - libibmad and ibnet must decode the bytes of the second reader to the same value.
//! - A counter of the second reader must be between the two values of ibnet.
//! - Any other field must have the same value in all three readings.
//!
//! Both readers send only Get requests, and wait for each reply before they send the next request.
//! The one exception is [`timing`], which has a few requests in flight at once.
//!
//! | module | contents |
//! |---|---|
//! | [`mod@reference`] | the second reader |
//! | [`compare`] | three readings of one attribute, field by field |
//! | [`device`] | all attributes of one port of a device |
//! | [`models`] | the models of devices, and the choice of devices |
//! | [`timing`] | service times, and the timeout of a LID that does not exist |
//! | [`report`] | the results as JSON |
//! | [`vendor`] | every register of a few devices, for a report of raw replies |

use crate::mad::pma::{self, CLASS_PORT_INFO};
use crate::mad::query::Query;

pub mod compare;
pub mod device;
pub mod models;
pub mod reference;
pub mod report;
pub mod timing;
pub mod vendor;

/// The query for the capabilities of an agent.
const CLASS_PORT_INFO_QUERY: Query = Query::Pma(pma::Query {
    attribute: CLASS_PORT_INFO.id,
    port: None,
});
