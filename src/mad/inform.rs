//! Subscription to traps: InformInfo, and the reports of the subnet manager (IBA vol. 1, 13.4.8.2,
//! 13.4.8.3 and 13.4.11).
//!
//! A subscriber sends a Set of InformInfo to subnet administration. From then on, the subnet
//! manager forwards each matching trap as a MAD with the method Report and expects a ReportResp.
//!
//! These are the only MADs of ibnet that are not Get requests, and ibnet sends them only if the
//! configuration requests it. A subscription changes nothing in the fabric except the subnet
//! manager's list of subscribers.

use ibnet_record::types::{Lid, Tid};

use super::header::{HEADER_LEN, Header, METHOD_GET_RESP, METHOD_SET, MadStatus};
use super::sa::{CLASS_SUBN_ADM, CLASS_VERSION};
use super::{MAD_LEN, Mad};

/// Method of a forwarded trap.
pub const METHOD_REPORT: u8 = 0x06;
/// Method of the reply to a forwarded trap.
pub const METHOD_REPORT_RESP: u8 = 0x86;

/// AttributeID of Notice: the content of a trap.
pub const NOTICE: u16 = 0x0002;
/// AttributeID of InformInfo: the subscription.
pub const INFORM_INFO: u16 = 0x0003;

/// Trap 128: the state of a link of a switch has changed.
pub const LINK_STATE: u16 = 128;
/// Trap 144: the capabilities, the description, or the enabled width or speed of a port has
/// changed.
pub const PORT_CHANGE: u16 = 144;

/// Octets of a MAD up to the end of a Notice, which begins at octet 56 and has 80 octets.
const NOTICE_END: usize = 136;

/// Octets of a MAD up to the end of an InformInfo, which begins at octet 56 and has 36 octets.
const INFORM_INFO_END: usize = 92;

/// Positions of the fields, in octets of the MAD.
mod field {
    use std::ops::Range;

    /// InformInfo: LIDRangeBegin.
    pub(super) const LID_RANGE_BEGIN: Range<usize> = 72..74;
    pub(super) const IS_GENERIC: usize = 78;
    pub(super) const SUBSCRIBE: usize = 79;
    pub(super) const TYPE: Range<usize> = 80..82;
    pub(super) const TRAP_NUMBER: Range<usize> = 82..84;
    /// QPN (24 bits), three reserved bits, RespTimeValue (five bits).
    pub(super) const QPN: Range<usize> = 84..87;
    pub(super) const RESP_TIME_VALUE: usize = 87;
    pub(super) const PRODUCER_TYPE: Range<usize> = 89..92;

    /// Notice: IsGeneric (one bit), Type (seven bits).
    pub(super) const NOTICE_GENERIC: usize = 56;
    pub(super) const NOTICE_TRAP: Range<usize> = 60..62;
    /// DataDetails of trap 128: LIDADDR.
    pub(super) const SWITCH_LID: Range<usize> = 66..68;
    /// DataDetails of trap 144: LIDADDR, after two reserved octets.
    pub(super) const PORT_LID: Range<usize> = 68..70;
}

/// LIDRangeBegin that selects the traps of all LIDs.
const ALL_LIDS: u16 = 0xffff;
/// Type and ProducerType that select all values.
const ALL: u8 = 0xff;
/// RespTimeValue: 4.096 us x 2^18, about one second.
const RESP_TIME: u8 = 18;

/// A subscription to one trap of all devices, or its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct InformInfo {
    /// Number of the trap.
    pub trap: u16,
    /// Whether to subscribe. If false, the subscription ends.
    pub subscribe: bool,
}

impl InformInfo {
    /// Writes the whole MAD.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_SUBN_ADM,
            class_version: CLASS_VERSION,
            method: METHOD_SET,
            status: MadStatus::OK,
            tid,
            attribute: INFORM_INFO,
            modifier: 0,
        };
        header.emit(mad);
        mad[field::LID_RANGE_BEGIN].copy_from_slice(&ALL_LIDS.to_be_bytes());
        (mad[field::IS_GENERIC], mad[field::SUBSCRIBE]) = (1, self.subscribe.into());
        mad[field::TYPE].fill(ALL);
        mad[field::TRAP_NUMBER].copy_from_slice(&self.trap.to_be_bytes());
        // The reports go to queue pair 1.
        mad[field::QPN].copy_from_slice(&[0, 0, 1]);
        mad[field::RESP_TIME_VALUE] = RESP_TIME;
        mad[field::PRODUCER_TYPE].fill(ALL);
    }

    /// Parses a subscription, for the simulated subnet manager. Returns `None` for any other MAD.
    pub fn parse(mad: &Mad) -> Option<Self> {
        let header = Header::parse(mad);
        let is_subscription = (header.class, header.method, header.attribute)
            == (CLASS_SUBN_ADM, METHOD_SET, INFORM_INFO);
        let trap = u16::from_be_bytes([
            mad[field::TRAP_NUMBER.start],
            mad[field::TRAP_NUMBER.start + 1],
        ]);
        is_subscription.then(|| Self {
            trap,
            subscribe: mad[field::SUBSCRIBE] != 0,
        })
    }

    /// Returns the status with which the subnet manager answered a subscription, or `None` if the
    /// MAD is no such answer. The caller checks the transaction and the sender.
    pub fn answer(mad: &Mad, len: usize) -> Option<MadStatus> {
        let header = Header::parse(mad);
        let is_answer = (
            header.class,
            header.class_version,
            header.method,
            header.attribute,
        ) == (CLASS_SUBN_ADM, CLASS_VERSION, METHOD_GET_RESP, INFORM_INFO);
        (is_answer && (INFORM_INFO_END..=MAD_LEN).contains(&len)).then_some(header.status)
    }
}

/// A trap that the subnet manager has forwarded.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Trap {
    /// Number of the trap.
    pub number: u16,
    /// LID of the device whose state has changed.
    pub lid: Lid,
}

impl Trap {
    /// Parses a report. Returns `None` for any other MAD, and for traps to which ibnet does not
    /// subscribe.
    pub fn parse(mad: &Mad, len: usize) -> Option<Self> {
        let header = Header::parse(mad);
        let is_report = (
            header.class,
            header.class_version,
            header.method,
            header.attribute,
        ) == (CLASS_SUBN_ADM, CLASS_VERSION, METHOD_REPORT, NOTICE);
        let is_generic = mad[field::NOTICE_GENERIC] & 0x80 != 0;
        if !is_report || !is_generic || !(NOTICE_END..=MAD_LEN).contains(&len) {
            return None;
        }
        let number = u16::from_be_bytes([
            mad[field::NOTICE_TRAP.start],
            mad[field::NOTICE_TRAP.start + 1],
        ]);
        let at = Self::place_of_lid(number)?.start;
        Some(Self {
            number,
            lid: Lid(u16::from_be_bytes([mad[at], mad[at + 1]])),
        })
    }

    /// Writes a report, for the simulated subnet manager.
    pub fn emit(&self, tid: Tid, mad: &mut Mad) {
        let header = Header {
            class: CLASS_SUBN_ADM,
            class_version: CLASS_VERSION,
            method: METHOD_REPORT,
            status: MadStatus::OK,
            tid,
            attribute: NOTICE,
            modifier: 0,
        };
        header.emit(mad);
        mad[field::NOTICE_GENERIC] = 0x80;
        mad[field::NOTICE_TRAP].copy_from_slice(&self.number.to_be_bytes());
        if let Some(place) = Self::place_of_lid(self.number) {
            mad[place].copy_from_slice(&self.lid.0.to_be_bytes());
        }
    }

    /// Turns a report into its reply.
    pub fn acknowledge(report: &mut Mad) {
        report[3] = METHOD_REPORT_RESP;
    }

    /// Returns the position of the device's LID in a report.
    fn place_of_lid(number: u16) -> Option<std::ops::Range<usize>> {
        match number {
            LINK_STATE => Some(field::SWITCH_LID),
            PORT_CHANGE => Some(field::PORT_LID),
            _ => None,
        }
    }
}

const _: () = assert!(HEADER_LEN <= field::LID_RANGE_BEGIN.start && NOTICE_END <= MAD_LEN);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn subscription_overwrites_the_whole_buffer() {
        let mut mad = [0xa5; MAD_LEN];
        let inform = InformInfo {
            trap: LINK_STATE,
            subscribe: true,
        };
        inform.emit(Tid(0x0102_0304), &mut mad);
        let mut expected = [0; MAD_LEN];
        expected[..24].copy_from_slice(&[
            1, 3, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 0, 3, 0, 0, 0, 0, 0, 0,
        ]);
        // GID 0, all LIDs, generic, subscribe, all types, trap 128, queue pair 1, one second, all
        // producers.
        expected[72..92].copy_from_slice(&[
            0xff, 0xff, 0, 0, 0, 0, 1, 1, 0xff, 0xff, 0, 128, 0, 0, 1, 18, 0, 0xff, 0xff, 0xff,
        ]);
        assert_eq!(mad, expected);
        assert_eq!(InformInfo::parse(&mad), Some(inform));
        mad[3] = METHOD_GET_RESP;
        assert_eq!(
            [91, 92, 256, 257].map(|len| InformInfo::answer(&mad, len).is_some()),
            [false, true, true, false]
        );
        (mad[4], mad[5]) = (2, 0);
        assert_eq!(InformInfo::answer(&mad, MAD_LEN), Some(MadStatus(0x0200)));
    }

    #[test]
    fn report_is_parsed_from_its_octets() {
        let mut mad = [0; MAD_LEN];
        mad[..24].copy_from_slice(&[
            1, 3, 2, 6, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 2, 0, 0, 0, 0, 0, 0,
        ]);
        // Generic, urgent, producer type switch, trap 128, issuer LID 5, LIDADDR 7.
        mad[56..68].copy_from_slice(&[0x81, 0, 0, 2, 0, 128, 0, 5, 0, 0, 0, 7]);
        assert_eq!(
            Trap::parse(&mad, MAD_LEN),
            Some(Trap {
                number: LINK_STATE,
                lid: Lid(7)
            })
        );
        assert_eq!(
            Trap::parse(&mad, NOTICE_END - 1),
            None,
            "a report that is cut"
        );
        // Generic, informational, producer type CA, trap 144, issuer LID 8, LIDADDR 8.
        mad[56..70].copy_from_slice(&[0x84, 0, 0, 1, 0, 144, 0, 8, 0, 0, 0, 0, 0, 8]);
        assert_eq!(
            Trap::parse(&mad, MAD_LEN),
            Some(Trap {
                number: PORT_CHANGE,
                lid: Lid(8)
            })
        );
        mad[61] = 129;
        assert_eq!(
            Trap::parse(&mad, MAD_LEN),
            None,
            "a trap without a subscription"
        );
        mad[56] = 0x04;
        assert_eq!(Trap::parse(&mad, MAD_LEN), None, "a trap of a vendor");
    }

    proptest! {
        #[test]
        fn arbitrary_octets_do_not_panic(noise in prop::collection::vec(any::<u8>(), MAD_LEN), len in 0usize..400) {
            let mad: Mad = noise.try_into().expect("as long as a MAD");
            let _ = (Trap::parse(&mad, len), InformInfo::parse(&mad), InformInfo::answer(&mad, len));
        }

        #[test]
        fn report_is_read_as_it_was_written(number in prop::sample::select(vec![LINK_STATE, PORT_CHANGE]), lid in any::<u16>()) {
            let trap = Trap { number, lid: Lid(lid) };
            let mut mad = [0xa5; MAD_LEN];
            trap.emit(Tid(1), &mut mad);
            prop_assert_eq!(Trap::parse(&mad, MAD_LEN), Some(trap));
            Trap::acknowledge(&mut mad);
            prop_assert_eq!((Trap::parse(&mad, MAD_LEN), mad[3]), (None, METHOD_REPORT_RESP));
        }
    }
}
