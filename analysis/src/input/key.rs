//! The key by which records are merged.

use std::hash::BuildHasher;

use ibnet_record::types::{Guid, PortNum};

use super::limits;
use crate::record::{Event, PortHead, Record, Type};

/// Port of a record, or type of a record without a port. All records with equal keys are folded
/// together in time order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Key {
    guid: u64,
    port: u16,
}

/// Fields of the records of the physical layer. A record about a whole switch has no port.
#[derive(serde::Deserialize)]
struct PhysicalHead {
    guid: Guid,
    port: Option<PortNum>,
}

impl Key {
    const NO_PORT: u16 = 256;

    /// Returns the index of the shard of this key. All ports of a device belong to one shard, so
    /// the state of a device exists only once.
    pub(super) fn shard(self) -> usize {
        (rustc_hash::FxBuildHasher.hash_one(self.guid) % limits::SHARDS as u64) as usize
    }

    /// Returns the GUID of the device, or 0 without a device.
    pub(super) fn device(self) -> u64 {
        self.guid
    }

    #[cfg(test)]
    pub(super) fn of_device(guid: u64) -> Self {
        Self { guid, port: 0 }
    }

    pub(super) fn of_port(guid: Guid, port: PortNum) -> Self {
        Self {
            guid: guid.0,
            port: u16::from(port.0),
        }
    }

    /// Returns the key of a record about a port, or about a whole device.
    fn of_device_or_port(guid: Guid, port: Option<PortNum>, kind: Type) -> Self {
        Self {
            guid: guid.0,
            port: port.map_or(Self::NO_PORT + kind as u16, |port| u16::from(port.0)),
        }
    }

    pub(super) fn of(line: &[u8], kind: Type) -> Result<Self, serde_json::Error> {
        match kind {
            Type::Port => {
                let PortHead { guid, port } = PortHead::of(line)?;
                return Ok(Self::of_port(guid, port));
            }
            Type::Event => {
                if let Record::Event(Event {
                    guid: Some(guid),
                    port,
                    ..
                }) = Record::parse(line, kind)?
                {
                    return Ok(Self::of_device_or_port(guid, port, kind));
                }
            }
            Type::Phy | Type::Module | Type::Sensors | Type::Planes => {
                let PhysicalHead { guid, port } = serde_json::from_slice(line)?;
                return Ok(Self::of_device_or_port(guid, port, kind));
            }
            Type::Start | Type::Sweep | Type::Histogram | Type::Routes => {}
        }
        Ok(Self {
            guid: 0,
            port: Self::NO_PORT + kind as u16,
        })
    }
}
