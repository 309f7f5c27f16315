//! The table `[plan_server]`: access to the NATS server of a published plan.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::error::value;
use super::nats_access::{Names, NatsAccess};
use super::{ConfigError, Plan};
use crate::distribution::PlanStore;
use crate::output::NatsOptions;

/// The table as in the file. An empty string means "not set".
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PlanServer {
    /// User name.
    pub user: String,
    /// Path of a file with the password of the user, or with a token if there is no user.
    pub password_file: String,
    /// Path of a file with NATS credentials.
    pub credentials: String,
    /// Path of a file with CA certificates, one of which must have signed the certificate of the
    /// server.
    pub ca_file: String,
    /// Path of the client certificate.
    pub cert_file: String,
    /// Path of the key of the client certificate.
    pub key_file: String,
    /// Path of the copy of the plan, which is used if the server is unreachable at a start.
    pub copy: String,
}

impl PlanServer {
    /// Returns the plan of the key `assignments`, which is the path of a file or the address of a
    /// published plan. The table is checked in both cases.
    pub(super) fn plan(&self, assignments: &str) -> Result<Plan, ConfigError> {
        let server = self.check()?;
        if !PlanStore::is_address(assignments) {
            return Ok(Plan::Assignments(assignments.into()));
        }
        let store = PlanStore::parse(assignments).ok_or_else(|| {
            value(
                "assignments",
                &NatsOptions { server: assignments.to_owned(), ..NatsOptions::default() }.shown_server(),
                "the path of a file, or an address nats://HOST:4222/BUCKET/KEY without user name and password",
            )
        })?;
        if cfg!(not(feature = "nats")) {
            return Err(ConfigError::NoNatsForPlan {
                place: String::new(),
            });
        }
        let copy = (!self.copy.is_empty()).then(|| PathBuf::from(&self.copy));
        let server = NatsOptions {
            server: store.server.server,
            ..server
        };
        Ok(Plan::Published(Box::new(PlanStore {
            server,
            copy,
            ..store
        })))
    }

    /// Returns connection settings without the address of the server.
    ///
    /// # Errors
    /// Returns an error if a key is set, but another key that it needs is missing.
    pub fn check(&self) -> Result<NatsOptions, ConfigError> {
        let Self {
            user,
            password_file,
            credentials,
            ca_file,
            cert_file,
            key_file,
            copy: _,
        } = self;
        let access = NatsAccess {
            user: Some(user),
            password_file: Some(password_file),
            credentials: Some(credentials),
            ca_file: Some(ca_file),
            cert_file: Some(cert_file),
            key_file: Some(key_file),
        };
        access.check(&Names {
            password_file: "plan_server.password_file",
            cert_file: "plan_server.cert_file",
            key_file: "plan_server.key_file",
        })
    }
}
