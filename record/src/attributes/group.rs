//! Counter groups. Each group is one attribute, and the configuration uses the group names of
//! perfquery and LDMS.

use std::collections::HashMap;
use std::str::FromStr;
use std::sync::LazyLock;

use super::{
    Attribute, Field, Needs, congestion, error_details, extended_speeds, flow_control,
    port_counters, port_counters_extended, sampling, sl_data, vl_counters,
};
use crate::types::ParseError;

words! {
    /// A counter group: one attribute, by its name in perfquery and LDMS. The order is that of the
    /// requests, with the most important group first.
    pub enum Group {
        /// PortCountersExtended, 0x1D.
        Extended = "extended",
        /// PortCounters, 0x12.
        Base = "base",
        /// PortXmitDiscardDetails, 0x16.
        XmtDisc = "xmtdisc",
        /// PortRcvErrorDetails, 0x15.
        RcvErr = "rcverr",
        /// PortXmitDataSL, 0x36.
        XmtSl = "xmtsl",
        /// PortRcvDataSL, 0x37.
        RcvSl = "rcvsl",
        /// PortExtendedSpeedsCounters, 0x1F, in the layout that matches the FEC of the port.
        ExtendedSpeeds = "extended_speeds",
        /// PortOpRcvCounters, 0x17.
        OpRcvCounters = "oprcvcounters",
        /// PortFlowCtlCounters, 0x18.
        FlowCtlCounters = "flowctlcounters",
        /// PortVLOpPackets, 0x19.
        VlOpPackets = "vloppackets",
        /// PortVLOpData, 0x1A.
        VlOpData = "vlopdata",
        /// PortVLXmitFlowCtlUpdateErrors, 0x1B.
        VlXmitFlowCtlErrors = "vlxmitflowctlerrors",
        /// PortVLXmitWaitCounters, 0x1C.
        VlXmitCounters = "vlxmitcounters",
        /// SwPortVLCongestion, 0x30.
        SwPortVlCong = "swportvlcong",
        /// PortRcvConCtrl, 0x31.
        RcvCc = "rcvcc",
        /// PortSLRcvFECN, 0x32.
        SlRcvFecn = "slrcvfecn",
        /// PortSLRcvBECN, 0x33.
        SlRcvBecn = "slrcvbecn",
        /// PortXmitConCtrl, 0x34.
        XmitCc = "xmitcc",
        /// PortVLXmitTimeCong, 0x35.
        VlXmitTimeCc = "vlxmittimecc",
        /// PortSamplesControl, 0x10.
        SmplCtl = "smplctl",
    }
}

impl Group {
    /// The groups of the default configuration.
    pub const DEFAULT: [Self; 4] = [Self::Extended, Self::Base, Self::XmtDisc, Self::RcvErr];

    /// Returns the attribute. If it has two views (layouts), this is the first one;
    /// [`other_view`](Self::other_view) returns the second.
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

    /// Returns the second view (layout) of the same octets, if the attribute has one.
    pub const fn other_view(self) -> Option<&'static Attribute> {
        match self {
            Self::ExtendedSpeeds => Some(&extended_speeds::PORT_EXTENDED_SPEEDS_COUNTERS_RS_FEC),
            _ => None,
        }
    }

    /// Returns the fields that a record can have, in the order of the MAD. If the attribute has
    /// two views, the result has the fields of both, each once.
    pub fn fields(self) -> impl Iterator<Item = &'static Field> {
        let first = self.attribute();
        let others = self.other_view().into_iter().flat_map(Attribute::counters);
        first
            .counters()
            .chain(others.filter(|field| first.field(field.name).is_none()))
    }

    /// Returns whether only switches have the attribute.
    pub const fn is_of_switches(self) -> bool {
        matches!(self, Self::SwPortVlCong)
    }

    /// Returns the 64-bit version of a counter, and its group.
    pub fn wider(self, field: &Field) -> Option<(Self, &'static Field)> {
        let wide = Self::Extended;
        let counter = wide
            .attribute()
            .counters()
            .find(|counter| counter.json == field.json)?;
        (self != wide).then_some((wide, counter))
    }
}

impl Group {
    /// Returns the record field with the number of slots since the last reading of the group.
    pub fn dt_slots_field(self) -> &'static str {
        static FIELDS: LazyLock<[String; Group::ALL.len()]> =
            LazyLock::new(|| Group::ALL.map(|group| format!("{group}{DT_SLOTS}")));
        &FIELDS[self as usize]
    }

    /// Returns the group to which such a record field belongs.
    pub fn of_dt_slots_field(name: &str) -> Option<Self> {
        name.strip_suffix(DT_SLOTS).and_then(Self::named)
    }

    /// Returns the groups from which a record can have a counter, the most likely one first.
    ///
    /// Extended and Base share counters. An agent with PortCountersExtended has the data there. If
    /// it has the errors there too, Base is not queried.
    pub fn of_counter(name: &str) -> &'static [Self] {
        static GROUPS: LazyLock<HashMap<&'static str, Vec<Group>>> = LazyLock::new(|| {
            let mut groups = HashMap::<_, Vec<_>>::new();
            for group in Group::ALL {
                for field in group.fields() {
                    match group.wider(field) {
                        Some((_, counter)) if counter.needs == Needs::Nothing => {}
                        Some(_) => groups.entry(field.json).or_default().insert(0, group),
                        None => groups.entry(field.json).or_default().push(group),
                    }
                }
            }
            groups
        });
        GROUPS.get(name).map_or(&[], Vec::as_slice)
    }
}

/// End of the name of [`Group::dt_slots_field`].
const DT_SLOTS: &str = "_dt_slots";

impl FromStr for Group {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        Self::named(text).ok_or_else(|| {
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
    fn shared_counter_belongs_to_the_group_that_is_queried_for_it() {
        for (counter, groups) in [
            ("port_xmit_data_bytes", &[Group::Extended][..]),
            ("port_rcv_pkts", &[Group::Extended]),
            ("symbol_error_counter", &[Group::Base, Group::Extended]),
            ("port_inactive_discards", &[Group::XmtDisc]),
            ("no_such_counter", &[]),
        ] {
            assert_eq!(Group::of_counter(counter), groups, "{counter}");
        }
    }

    #[test]
    fn names_are_those_of_perfquery() {
        let refusal = "vlopdat"
            .parse::<Group>()
            .expect_err("no such group")
            .to_string();
        for group in Group::ALL {
            assert_eq!(group.to_string().parse(), Ok(group));
            assert!(
                refusal.contains(group.as_str()),
                "{group} is not in: {refusal}"
            );
        }
    }

    #[test]
    fn names_in_records_are_unique_except_in_base_and_extended() {
        let mut names: Vec<&str> = Group::ALL
            .into_iter()
            .filter(|group| *group != Group::Base)
            .flat_map(Group::fields)
            .map(|f| f.json)
            .collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
