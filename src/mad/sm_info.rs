//! SMInfo: what a subnet manager reports about itself (IBA vol. 1, 14.2.5.13).
//!
//! The subnet manager answers the request, not the agent of the port. A port without a subnet
//! manager therefore refuses the request or does not answer it.

use ibnet_record::attributes::Field;
use ibnet_record::types::Guid;

use super::pma::{Bits, Data};

/// AttributeID of SMInfo.
pub const SM_INFO: u16 = 0x0020;

/// Bit of PortInfo.CapabilityMask: a subnet manager runs on the port (IsSM).
pub const IS_SM: u32 = 1 << 1;

/// The fields of SMInfo that ibnet uses. SM_Key is left out, because subnet managers return it only
/// to each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SmInfo {
    /// Port GUID of the subnet manager.
    pub guid: Guid,
    /// Number of actions of the subnet manager. It grows while the subnet manager works.
    pub act_count: u32,
    /// Priority, 0 to 15. The subnet manager with the highest priority becomes the master.
    pub priority: u8,
    /// State, 0 to 3.
    pub state: SmState,
}

/// State of a subnet manager (SMState).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum SmState {
    /// 0: it does nothing.
    #[default]
    NotActive,
    /// 1: it looks for other subnet managers.
    Discovering,
    /// 2: another subnet manager is the master.
    Standby,
    /// 3: it manages the subnet.
    Master,
    /// A value that IBA does not define.
    Unknown(u8),
}

const GUID: Field = Field::new("GUID", "guid", 0, 64);
const ACT_COUNT: Field = Field::new("ActCount", "act_count", 128, 32);
const PRIORITY: Field = Field::new("Priority", "priority", 160, 4);
const SM_STATE: Field = Field::new("SMState", "sm_state", 164, 4);

/// The fields of the attribute that [`SmInfo`] contains.
pub static SM_INFO_FIELDS: [Field; 4] = [GUID, ACT_COUNT, PRIORITY, SM_STATE];

impl SmInfo {
    /// Parses the attribute.
    pub fn parse(data: &Data) -> Self {
        let raw = |field: Field| field.raw(data, 0);
        Self {
            guid: Guid(raw(GUID)),
            act_count: raw(ACT_COUNT) as u32,
            priority: raw(PRIORITY) as u8,
            state: SmState::of(raw(SM_STATE) as u8),
        }
    }

    /// Writes the attribute.
    pub fn emit(&self, data: &mut Data) {
        let fields = [
            (GUID, self.guid.0),
            (ACT_COUNT, self.act_count.into()),
            (PRIORITY, self.priority.into()),
            (SM_STATE, self.state.number().into()),
        ];
        fields
            .into_iter()
            .for_each(|(field, value)| field.set_raw(data, 0, value));
    }
}

impl SmState {
    fn of(number: u8) -> Self {
        match number {
            0 => Self::NotActive,
            1 => Self::Discovering,
            2 => Self::Standby,
            3 => Self::Master,
            other => Self::Unknown(other),
        }
    }

    /// Returns the number of the state in SMInfo.
    pub fn number(self) -> u8 {
        match self {
            Self::NotActive => 0,
            Self::Discovering => 1,
            Self::Standby => 2,
            Self::Master => 3,
            Self::Unknown(number) => number,
        }
    }

    /// Returns the name of the state, for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::NotActive => "not active",
            Self::Discovering => "discovering",
            Self::Standby => "standby",
            Self::Master => "master",
            Self::Unknown(_) => "in an unknown state",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mad::pma::DATA_LEN;

    #[test]
    fn record_is_parsed_from_its_octets() {
        let mut data = [0xff; DATA_LEN];
        data[..8].copy_from_slice(&[0, 0, 0, 0, 0, 0x10, 0, 1]);
        data[16..21].copy_from_slice(&[0, 0, 1, 2, 0xe3]);
        let info = SmInfo {
            guid: Guid(0x10_0001),
            act_count: 258,
            priority: 14,
            state: SmState::Master,
        };
        assert_eq!(SmInfo::parse(&data), info);
        let mut written = [0; DATA_LEN];
        info.emit(&mut written);
        assert_eq!(SmInfo::parse(&written), info);
        for number in 0..16 {
            assert_eq!(SmState::of(number).number(), number);
        }
    }
}
