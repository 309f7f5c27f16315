//! Compares three readings of one attribute: ibnet's, the second reader's, and ibnet's again.

use ibnet_record::attributes::{Attribute, Field, Unit};

use crate::mad::Mad;
use crate::mad::libibmad::{FieldReader, Reply};
use crate::mad::pma::{Bits, Data, data_mut};

/// Readings of one attribute, in the order of their times.
#[derive(Clone, Copy, Debug)]
pub struct Readings {
    /// First reading of ibnet.
    pub before: Data,
    /// Reading of the second reader.
    pub theirs: Data,
    /// Second reading of ibnet.
    pub after: Data,
}

/// The values of one field in three readings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Values {
    /// In the first reading of ibnet, decoded by ibnet.
    pub before: u64,
    /// In the reading of the second reader, decoded by libibmad.
    pub theirs: u64,
    /// In the reading of the second reader, decoded by ibnet.
    pub theirs_by_us: u64,
    /// In the second reading of ibnet, decoded by ibnet.
    pub after: u64,
}

/// Kind of a difference.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// libibmad and ibnet decode the same bytes to different values.
    Decoding,
    /// The value of the second reader is not between the two values of ibnet.
    NotBetween,
    /// A field that is not a counter changed.
    Changed,
}

/// A field that differs.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// The field.
    pub field: &'static Field,
    /// Index of the value in the field. It is 0 unless the field is an array.
    pub index: u8,
    /// Values of the field.
    pub values: Values,
    /// Kind of the difference.
    pub fault: Fault,
}

/// Result of the comparison of one attribute.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// Number of values that were compared. Each value of an array counts.
    pub fields: u32,
    /// Fields that differ.
    pub differences: Vec<Difference>,
    /// Number of values that libibmad is known to decode wrongly and did decode differently.
    pub known: u32,
}

impl Comparison {
    /// Returns whether a field could differ because a counter was cleared between the readings.
    pub fn may_be_cleared(&self) -> bool {
        self.differences
            .iter()
            .any(|difference| difference.fault == Fault::NotBetween)
            && self
                .differences
                .iter()
                .all(|difference| difference.fault != Fault::Decoding)
    }
}

/// Compares the readings of an attribute of performance management, field by field. A counter may
/// increase from one reading to the next; other fields must be equal.
///
/// libibmad and ibnet must decode the bytes of the second reader to the same values. The one
/// exception, QP1Dropped, which libibmad reads from other bytes, is counted separately.
pub fn compare(
    attribute: Option<&Attribute>,
    readers: &[FieldReader],
    readings: &Readings,
) -> Comparison {
    let mut mad: Mad = [0; 256];
    *data_mut(&mut mad) = readings.theirs;
    let reply = Reply::new(&mad);
    let mut comparison = Comparison::default();
    for reader in readers {
        let (field, index) = (reader.field, reader.index);
        let ours = |data: &Data| field.raw(data, index);
        let values = Values {
            before: ours(&readings.before),
            theirs: reader.read(&reply),
            theirs_by_us: ours(&readings.theirs),
            after: ours(&readings.after),
        };
        let is_known = attribute.is_some_and(|attribute| reader.is_wrong_in_libibmad(attribute));
        comparison.fields += 1;
        comparison.known += u32::from(is_known && values.theirs != values.theirs_by_us);
        if let Some(fault) = fault(field, &values, is_known) {
            comparison.differences.push(Difference {
                field,
                index,
                values,
                fault,
            });
        }
    }
    comparison
}

fn fault(field: &Field, values: &Values, is_known: bool) -> Option<Fault> {
    let Values {
        before,
        theirs,
        theirs_by_us,
        after,
    } = *values;
    let theirs = if is_known { theirs_by_us } else { theirs };
    if theirs != theirs_by_us {
        return Some(Fault::Decoding);
    }
    let is_counter = field.unit.is_some_and(|unit| unit != Unit::Setting);
    let (is_equal, fault) = match is_counter {
        true => (before <= theirs && theirs <= after, Fault::NotBetween),
        false => (before == theirs && theirs == after, Fault::Changed),
    };
    (!is_equal).then_some(fault)
}

#[cfg(test)]
mod tests {
    use ibnet_record::attributes::Group;

    use super::*;
    use crate::mad::libibmad::field_readers;
    use crate::mad::pma::DATA_LEN;

    /// Compares readings of PortCounters with these values of one field.
    fn compared(name: &str, values: [u64; 3]) -> Comparison {
        let attribute = Group::Base.attribute();
        let field = attribute.field(name).expect("declared");
        let data = values.map(|value| {
            let mut data = [0; DATA_LEN];
            field.set_raw(&mut data, 0, value);
            data
        });
        let [before, theirs, after] = data;
        compare(
            Some(attribute),
            &field_readers(attribute),
            &Readings {
                before,
                theirs,
                after,
            },
        )
    }

    fn faults(name: &str, values: [u64; 3]) -> Vec<(&'static str, Fault)> {
        compared(name, values)
            .differences
            .iter()
            .map(|difference| (difference.field.name, difference.fault))
            .collect()
    }

    #[test]
    fn counter_between_the_two_readings_is_equal() {
        assert_eq!(faults("PortXmitData", [7, 7, 7]), []);
        assert_eq!(faults("PortXmitData", [7, 8, 9]), []);
        assert_eq!(faults("PortXmitData", [u64::from(u32::MAX); 3]), []);
        assert_eq!(compared("PortXmitData", [7, 8, 9]).fields, 21);
    }

    #[test]
    fn counter_outside_of_the_two_readings_differs() {
        assert_eq!(
            faults("PortXmitData", [7, 6, 9]),
            [("PortXmitData", Fault::NotBetween)]
        );
        assert_eq!(
            faults("PortXmitData", [7, 10, 9]),
            [("PortXmitData", Fault::NotBetween)]
        );
        assert!(compared("PortXmitData", [7, 0, 0]).may_be_cleared());
    }

    #[test]
    fn setting_that_changed_differs() {
        assert_eq!(faults("PortSelect", [1, 1, 1]), []);
        assert_eq!(
            faults("PortSelect", [1, 2, 1]),
            [("PortSelect", Fault::Changed)]
        );
    }

    #[test]
    fn known_error_of_libibmad_is_counted_apart() {
        let comparison = compared("QP1Dropped", [3, 3, 3]);
        assert_eq!((comparison.differences.len(), comparison.known), (0, 1));
        assert_eq!(
            faults("QP1Dropped", [3, 2, 3]),
            [("QP1Dropped", Fault::NotBetween)]
        );
    }
}
