//! Events about subnet managers.

use ibnet_record::EventName;

use super::{Clock, Driver};
use crate::mad::transport::Transport;
use crate::sweep::engine::{ManagerPort, SubnetManager};

impl<T: Transport, C: Clock> Driver<T, C> {
    /// Reports a subnet manager that is new, has changed, or does not answer.
    pub(super) fn report_manager(
        &mut self,
        slot: u64,
        SubnetManager {
            lid,
            info,
            is_answering,
        }: SubnetManager,
    ) {
        let (state, priority, guid) = (info.state.name(), info.priority, info.guid);
        if is_answering {
            tracing::debug!(%guid, %lid, state, priority, "subnet manager");
        } else {
            tracing::warn!(%guid, %lid, state, priority, "a subnet manager does not answer; if it is the master, changes of the fabric are not routed");
        }
        let silence = if is_answering {
            ""
        } else {
            "; it does not answer any more"
        };
        self.push_event(
            (slot, self.unix_now()),
            EventName::Sm,
            Some((guid, lid)),
            None,
            &format!("{state}, priority {priority}{silence}"),
        );
    }

    /// Reports a subnet manager that no port names any more.
    pub(super) fn report_manager_gone(
        &mut self,
        slot: u64,
        SubnetManager { lid, info, .. }: SubnetManager,
    ) {
        tracing::info!(guid = %info.guid, %lid, "no port names this subnet manager any more");
        self.push_event(
            (slot, self.unix_now()),
            EventName::Sm,
            Some((info.guid, lid)),
            None,
            "no port names it as a subnet manager any more",
        );
    }

    /// Reports that another subnet manager is the master.
    pub(super) fn report_master_change(&mut self, slot: u64, from: ManagerPort, to: ManagerPort) {
        tracing::warn!(from = %from.guid, from_lid = %from.lid, to = %to.guid, to_lid = %to.lid, "another subnet manager has become the master; check why");
        let detail = format!(
            "{} at LID {} is the master in place of {} at LID {}",
            to.guid, to.lid, from.guid, from.lid
        );
        self.push_event(
            (slot, self.unix_now()),
            EventName::SmChange,
            Some((to.guid, to.lid)),
            None,
            &detail,
        );
    }
}
