//! The models of devices, and the choice of the devices to verify.

use std::collections::BTreeMap;
use std::fmt;

use ibnet_record::types::NodeKind;

use crate::mad::smp::NodeInfo;

/// A model of devices, by the fields of NodeInfo that the vendor assigns.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Model {
    /// Kind of the node. `None` for a type that IBA does not define.
    pub kind: Option<NodeKind>,
    /// Vendor ID, 24 bits.
    pub vendor_id: u32,
    /// Device ID.
    pub device_id: u16,
    /// Revision of the device.
    pub revision: u32,
}

impl Model {
    /// Returns the model of a device.
    pub fn of(info: &NodeInfo) -> Self {
        let NodeInfo {
            kind,
            vendor_id,
            device_id,
            revision,
            ..
        } = *info;
        Self {
            kind,
            vendor_id,
            device_id,
            revision,
        }
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self
            .kind
            .map_or_else(|| "unknown kind".to_owned(), |kind| kind.to_string());
        write!(
            f,
            "{kind}, vendor {:#08x}, device {:#06x}, revision {:#x}",
            self.vendor_id, self.device_id, self.revision
        )
    }
}

/// Returns at most `most` indices of `count` items, evenly spread, in ascending order.
pub fn spread(count: usize, most: usize) -> Vec<usize> {
    let taken = most.min(count);
    (0..taken).map(|place| place * count / taken).collect()
}

/// Returns the members of each model, at most `most` of each, evenly spread.
pub fn choose<D>(
    found: impl IntoIterator<Item = (Model, D)>,
    most: usize,
) -> BTreeMap<Model, Vec<D>> {
    let mut models: BTreeMap<Model, Vec<D>> = BTreeMap::new();
    for (model, device) in found {
        models.entry(model).or_default().push(device);
    }
    for devices in models.values_mut() {
        let wanted = spread(devices.len(), most);
        let mut place = 0;
        devices.retain(|_| {
            place += 1;
            wanted.contains(&(place - 1))
        });
    }
    models
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_evenly_spread() {
        assert_eq!(spread(10, 3), [0, 3, 6]);
        assert_eq!(spread(2, 5), [0, 1]);
        assert_eq!(spread(0, 5), [0; 0]);
        assert_eq!(spread(5, 0), [0; 0]);
    }

    #[test]
    fn each_model_has_devices() {
        let model = |device_id| Model {
            kind: Some(NodeKind::Hca),
            vendor_id: 0x2c9,
            device_id,
            revision: 0,
        };
        let found = (0..9u16).map(|number| (model(number / 8), number));
        let chosen: Vec<_> = choose(found, 2)
            .into_iter()
            .map(|(model, devices)| (model.device_id, devices))
            .collect();
        assert_eq!(chosen, [(0, vec![0, 4]), (1, vec![8])]);
    }

    #[test]
    fn model_is_printed_with_its_numbers() {
        let model = Model {
            kind: Some(NodeKind::Switch),
            vendor_id: 0x2c9,
            device_id: 0xd2f0,
            revision: 0xa0,
        };
        assert_eq!(
            model.to_string(),
            "switch, vendor 0x0002c9, device 0xd2f0, revision 0xa0"
        );
    }
}
