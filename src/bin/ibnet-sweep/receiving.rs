//! The published plan of a sweep: the connection to its server, and its copy on the disk.

use std::path::PathBuf;
use std::sync::Arc;

use ibnet::assignments::sha256_hex;
use ibnet::distribution::copy;
use ibnet_record::types::Printable;

#[cfg(feature = "nats")]
pub(super) use self::connected::Receiving;
#[cfg(not(feature = "nats"))]
pub(super) use self::without_nats::Receiving;

/// A published plan, as it was received or read from the copy.
#[derive(Clone, Debug)]
pub(super) struct ReceivedPlan {
    /// Text of the assignments file. It has not been checked.
    pub(super) octets: Arc<[u8]>,
    /// Origin for messages: the address and the revision, or the path of the copy.
    pub(super) name: String,
    /// Why the plan comes from the copy. `None` if it comes from the server.
    pub(super) problem: Option<String>,
    /// Path of the copy of this plan.
    copy: Option<PathBuf>,
}

impl ReceivedPlan {
    pub(super) fn sha256(&self) -> String {
        sha256_hex(&self.octets)
    }

    /// Writes a plan that is in use to the copy on the disk.
    pub(super) fn keep_copy(&self) {
        let (Some(path), None) = (&self.copy, &self.problem) else {
            return;
        };
        if let Err(error) = copy::write(path, &self.octets) {
            tracing::warn!(
                copy = %Printable(&path.display().to_string()), %error,
                "cannot keep a copy of the plan, so a start needs the NATS server; set `copy` of [plan_server] to a path that this user may write"
            );
        }
    }
}

#[cfg(feature = "nats")]
mod connected {
    use std::path::PathBuf;
    use std::sync::{Arc, OnceLock};

    use ibnet::distribution::{DistributionError, PlanStore, Published, Receiver};
    use ibnet_record::limits;
    use ibnet_record::types::Printable;

    use super::super::clock::wall_clock;
    use super::super::failure::Failure;
    use super::ReceivedPlan;

    /// A connection that watches a published plan.
    #[derive(Clone, Debug)]
    pub(in super::super) struct Receiving(Arc<Inner>);

    #[derive(Debug)]
    struct Inner {
        receiver: Receiver,
        /// SHA-256 of the copy, if it was used.
        copy_sha256: OnceLock<String>,
    }

    impl Receiving {
        /// Starts to watch a plan, and waits for the first attempt to read it.
        pub(in super::super) fn start(store: &PlanStore) -> Result<Self, Failure> {
            let receiver =
                Receiver::start(store.clone(), wall_clock()).map_err(Failure::Threads)?;
            Ok(Self(Arc::new(Inner {
                receiver,
                copy_sha256: OnceLock::new(),
            })))
        }

        pub(in super::super) fn store(&self) -> &PlanStore {
            self.0.receiver.store()
        }

        pub(in super::super) fn is_same_as(&self, other: &Self) -> bool {
            Arc::ptr_eq(&self.0, &other.0)
        }

        /// Returns the SHA-256 of the newest plan or, while no plan was received, of the copy.
        pub(in super::super) fn sha256(&self) -> Option<String> {
            self.0
                .receiver
                .newest()
                .map(|plan| plan.sha256)
                .or_else(|| self.0.copy_sha256.get().cloned())
        }

        pub(in super::super) fn newest(&self) -> Result<ReceivedPlan, Failure> {
            self.received(self.0.receiver.newest())
        }

        /// Returns the newest plan whose time has come.
        pub(in super::super) fn first(&self) -> Result<ReceivedPlan, Failure> {
            self.received(self.0.receiver.first())
        }

        /// Reads the copy, because no plan was received.
        ///
        /// # Errors
        /// If there is no copy, returns the reason why no plan was received.
        pub(in super::super) fn copy(&self) -> Result<ReceivedPlan, Failure> {
            let problem = self.problem();
            let Some(path) = copy_path(self.store()) else {
                return Err(Failure::Distribution(problem));
            };
            let Ok(octets) = limits::read_file(&path, limits::PLAN) else {
                return Err(Failure::Distribution(problem));
            };
            let name = path.display().to_string();
            tracing::warn!(copy = %Printable(&name), error = %Printable(&problem.to_string()), "the NATS server is unreachable; the local copy of the plan is used until it answers");
            let plan = ReceivedPlan {
                octets: octets.into(),
                name,
                problem: Some(problem.to_string()),
                copy: Some(path),
            };
            self.0.copy_sha256.get_or_init(|| plan.sha256());
            Ok(plan)
        }

        fn received(&self, plan: Option<Published>) -> Result<ReceivedPlan, Failure> {
            let Published {
                octets, revision, ..
            } = plan.ok_or_else(|| Failure::Distribution(self.problem()))?;
            let (name, copy) = (
                format!("{} revision {revision}", self.store()),
                copy_path(self.store()),
            );
            Ok(ReceivedPlan {
                octets,
                name,
                problem: None,
                copy,
            })
        }

        fn problem(&self) -> Arc<DistributionError> {
            let silent = || {
                let (server, reason) = (
                    self.store().server.shown_server(),
                    "the server does not answer".to_owned(),
                );
                Arc::new(DistributionError::Connect { server, reason })
            };
            self.0.receiver.problem().unwrap_or_else(silent)
        }
    }

    /// Returns the path of the copy: the configured one, or `plan.toml` in the state directory
    /// that systemd gives the service.
    fn copy_path(store: &PlanStore) -> Option<PathBuf> {
        let of_service = || {
            let folders = std::env::var("STATE_DIRECTORY").ok()?;
            let first = folders
                .split(':')
                .next()
                .filter(|folder| !folder.is_empty())?;
            Some(PathBuf::from(first).join("plan.toml"))
        };
        store.copy.clone().or_else(of_service)
    }
}

#[cfg(not(feature = "nats"))]
mod without_nats {
    use std::sync::Arc;

    use ibnet::distribution::{DistributionError, PlanStore};

    use super::super::failure::Failure;
    use super::ReceivedPlan;

    /// A placeholder: this build cannot receive published plans.
    #[derive(Clone, Debug)]
    pub(in super::super) struct Receiving {
        store: Arc<PlanStore>,
    }

    impl Receiving {
        pub(in super::super) fn start(store: &PlanStore) -> Result<Self, Failure> {
            Ok(Self {
                store: Arc::new(store.clone()),
            })
        }

        pub(in super::super) fn store(&self) -> &PlanStore {
            &self.store
        }

        pub(in super::super) fn is_same_as(&self, other: &Self) -> bool {
            self.store == other.store
        }

        pub(in super::super) fn sha256(&self) -> Option<String> {
            None
        }

        pub(in super::super) fn newest(&self) -> Result<ReceivedPlan, Failure> {
            Err(Failure::Distribution(Arc::new(DistributionError::NoNats {
                store: self.store.to_string(),
            })))
        }

        pub(in super::super) fn first(&self) -> Result<ReceivedPlan, Failure> {
            self.newest()
        }

        pub(in super::super) fn copy(&self) -> Result<ReceivedPlan, Failure> {
            self.newest()
        }
    }
}
