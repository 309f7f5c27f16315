//! Groups of counters, by the names that perfquery and LDMS use: what an administrator asks for.

use std::fmt;
use std::str::FromStr;

use super::{
    Attribute, Capabilities, Field, congestion, error_details, extended_speeds, flow_control, port_counters, port_counters_extended,
    sampling, sl_data, vl_counters,
};
use crate::types::{NodeKind, ParseError};

/// A set of counters by the name that perfquery and LDMS use; one attribute each.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Group {
    /// PortCountersExtended, 0x1D.
    Extended,
    /// PortCounters, 0x12.
    Base,
    /// PortXmitDiscardDetails, 0x16.
    XmtDisc,
    /// PortRcvErrorDetails, 0x15.
    RcvErr,
    /// PortXmitDataSL, 0x36.
    XmtSl,
    /// PortRcvDataSL, 0x37.
    RcvSl,
    /// PortExtendedSpeedsCounters, 0x1F, in the view of the port's FEC.
    ExtendedSpeeds,
    /// PortOpRcvCounters, 0x17.
    OpRcvCounters,
    /// PortFlowCtlCounters, 0x18.
    FlowCtlCounters,
    /// PortVLOpPackets, 0x19.
    VlOpPackets,
    /// PortVLOpData, 0x1A.
    VlOpData,
    /// PortVLXmitFlowCtlUpdateErrors, 0x1B.
    VlXmitFlowCtlErrors,
    /// PortVLXmitWaitCounters, 0x1C.
    VlXmitCounters,
    /// SwPortVLCongestion, 0x30.
    SwPortVlCong,
    /// PortRcvConCtrl, 0x31.
    RcvCc,
    /// PortSLRcvFECN, 0x32.
    SlRcvFecn,
    /// PortSLRcvBECN, 0x33.
    SlRcvBecn,
    /// PortXmitConCtrl, 0x34.
    XmitCc,
    /// PortVLXmitTimeCong, 0x35.
    VlXmitTimeCc,
    /// PortSamplesControl, 0x10.
    SmplCtl,
}

impl Group {
    /// All of them, in the order in which they are asked for: first what matters most.
    pub const ALL: [Self; 20] = [
        Self::Extended,
        Self::Base,
        Self::XmtDisc,
        Self::RcvErr,
        Self::XmtSl,
        Self::RcvSl,
        Self::ExtendedSpeeds,
        Self::OpRcvCounters,
        Self::FlowCtlCounters,
        Self::VlOpPackets,
        Self::VlOpData,
        Self::VlXmitFlowCtlErrors,
        Self::VlXmitCounters,
        Self::SwPortVlCong,
        Self::RcvCc,
        Self::SlRcvFecn,
        Self::SlRcvBecn,
        Self::XmitCc,
        Self::VlXmitTimeCc,
        Self::SmplCtl,
    ];

    /// What is asked for unless something else is said.
    pub const DEFAULT: [Self; 4] = [Self::Extended, Self::Base, Self::XmtDisc, Self::RcvErr];

    /// Its attribute; of two views the first, which [`other_view`](Self::other_view) is the other of.
    pub const fn attribute(self) -> &'static Attribute {
        match self {
            Self::Extended => &port_counters_extended::PORT_COUNTERS_EXTENDED,
            Self::Base => &port_counters::PORT_COUNTERS,
            Self::XmtDisc => &error_details::PORT_XMIT_DISCARD_DETAILS,
            Self::RcvErr => &error_details::PORT_RCV_ERROR_DETAILS,
            Self::XmtSl => &sl_data::PORT_XMIT_DATA_SL,
            Self::RcvSl => &sl_data::PORT_RCV_DATA_SL,
            Self::ExtendedSpeeds => &extended_speeds::PORT_EXTENDED_SPEEDS_COUNTERS,
            Self::OpRcvCounters => &flow_control::PORT_OP_RCV_COUNTERS,
            Self::FlowCtlCounters => &flow_control::PORT_FLOW_CTL_COUNTERS,
            Self::VlOpPackets => &vl_counters::PORT_VL_OP_PACKETS,
            Self::VlOpData => &vl_counters::PORT_VL_OP_DATA,
            Self::VlXmitFlowCtlErrors => &vl_counters::PORT_VL_XMIT_FLOW_CTL_UPDATE_ERRORS,
            Self::VlXmitCounters => &vl_counters::PORT_VL_XMIT_WAIT_COUNTERS,
            Self::SwPortVlCong => &congestion::SW_PORT_VL_CONGESTION,
            Self::RcvCc => &congestion::PORT_RCV_CON_CTRL,
            Self::SlRcvFecn => &congestion::PORT_SL_RCV_FECN,
            Self::SlRcvBecn => &congestion::PORT_SL_RCV_BECN,
            Self::XmitCc => &congestion::PORT_XMIT_CON_CTRL,
            Self::VlXmitTimeCc => &congestion::PORT_VL_XMIT_TIME_CONG,
            Self::SmplCtl => &sampling::PORT_SAMPLES_CONTROL,
        }
    }

    /// Another view of the same octets, if its attribute has one.
    pub const fn other_view(self) -> Option<&'static Attribute> {
        match self {
            Self::ExtendedSpeeds => Some(&extended_speeds::PORT_EXTENDED_SPEEDS_COUNTERS_RS_FEC),
            _ => None,
        }
    }

    /// What a record can show of it, in the order of the wire: the fields of all views, each once.
    pub fn fields(self) -> impl Iterator<Item = &'static Field> {
        let first = self.attribute();
        let others = self.other_view().into_iter().flat_map(Attribute::counters);
        first.counters().chain(others.filter(|field| first.field(field.name).is_none()))
    }

    /// Whether an agent that can do this has it at all.
    pub fn is_had_by(self, kind: NodeKind, capabilities: Capabilities) -> bool {
        (self != Self::SwPortVlCong || kind == NodeKind::Switch)
            && capabilities.have(self.attribute().needs)
            && self.fields().any(|field| capabilities.have(field.needs))
    }

    /// The same counter in 64 bits, and the group that has it.
    pub fn wider(self, field: &Field) -> Option<(Self, &'static Field)> {
        let wide = Self::Extended;
        let twin = wide.attribute().counters().find(|twin| twin.json == field.json)?;
        (self != wide).then_some((wide, twin))
    }

    /// Whether an agent that can do this has every counter of this group wider in another one of `groups`.
    pub fn is_superseded(self, groups: &[Self], capabilities: Capabilities) -> bool {
        let mut counters = self.attribute().counters().filter(|field| capabilities.have(field.needs));
        counters.all(|field| {
            let wider = self.wider(field).filter(|(wide, _)| groups.contains(wide));
            wider.is_some_and(|(wide, twin)| capabilities.have(wide.attribute().needs) && capabilities.have(twin.needs))
        })
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Extended => "extended",
            Self::Base => "base",
            Self::XmtDisc => "xmtdisc",
            Self::RcvErr => "rcverr",
            Self::XmtSl => "xmtsl",
            Self::RcvSl => "rcvsl",
            Self::ExtendedSpeeds => "extended_speeds",
            Self::OpRcvCounters => "oprcvcounters",
            Self::FlowCtlCounters => "flowctlcounters",
            Self::VlOpPackets => "vloppackets",
            Self::VlOpData => "vlopdata",
            Self::VlXmitFlowCtlErrors => "vlxmitflowctlerrors",
            Self::VlXmitCounters => "vlxmitcounters",
            Self::SwPortVlCong => "swportvlcong",
            Self::RcvCc => "rcvcc",
            Self::SlRcvFecn => "slrcvfecn",
            Self::SlRcvBecn => "slrcvbecn",
            Self::XmitCc => "xmitcc",
            Self::VlXmitTimeCc => "vlxmittimecc",
            Self::SmplCtl => "smplctl",
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Group {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let found = Self::ALL.into_iter().find(|group| group.as_str() == text);
        found.ok_or_else(|| {
            ParseError::new(
                text,
                "a group of counters: all, extended, base, xmtdisc, rcverr, xmtsl, rcvsl, extended_speeds, oprcvcounters, flowctlcounters, \
                 vloppackets, vlopdata, vlxmitflowctlerrors, vlxmitcounters, swportvlcong, rcvcc, slrcvfecn, slrcvbecn, xmitcc, vlxmittimecc, \
                 smplctl",
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_as_perfquery_names_them() {
        let refusal = "vlopdat".parse::<Group>().expect_err("no such group").to_string();
        for group in Group::ALL {
            assert_eq!(group.to_string().parse(), Ok(group));
            assert!(refusal.contains(group.as_str()), "{group} is not in: {refusal}");
        }
    }

    #[test]
    fn no_two_groups_show_a_name_twice_but_base_and_extended() {
        let mut names: Vec<&str> =
            Group::ALL.into_iter().filter(|group| *group != Group::Base).flat_map(Group::fields).map(|f| f.json).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn what_option_mask_does_not_name_is_not_there() {
        let told = |option_mask| Capabilities { mask: 0x1600, mask2: 0, option_mask };
        let had = |group: Group, option_mask| group.is_had_by(NodeKind::Switch, told(option_mask));
        assert!(had(Group::RcvErr, None) && had(Group::RcvErr, Some(1 << 11)) && !had(Group::RcvErr, Some(1 << 12)));
        assert!(had(Group::RcvSl, Some(1 << 56)) && !had(Group::RcvSl, Some(1 << 55)));
        assert!(had(Group::ExtendedSpeeds, Some(1 << 28)) && !had(Group::ExtendedSpeeds, Some(0)));
        for mandatory in [Group::Base, Group::Extended, Group::SmplCtl] {
            assert!(had(mandatory, Some(0)), "{mandatory}");
        }
        assert!(!Group::SwPortVlCong.is_had_by(NodeKind::Hca, told(None)) && had(Group::SwPortVlCong, None));
    }
}
