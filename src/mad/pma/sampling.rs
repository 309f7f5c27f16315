//! PortSamplesControl (attribute 0x0010, IBA vol. 1, 16.1.3.2): 80 octets. Every agent has it.
//!
//! With this attribute, an agent can sample its counters. ibnet never starts such a sampling and
//! reads only two fields:
//!
//! - **OptionMask** shows which of the optional attributes without a bit in CapabilityMask the
//!   agent has.
//! - **Tick** is the length of a tick of PortXmitWait, in symbol times, minus one.

use ibnet_record::attributes::sampling::{OPTION_MASK, TICK};

use super::{Bits, Data};

/// The fields that ibnet reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sampling {
    /// Length of a tick in symbol times, minus one.
    pub tick: u8,
    /// Optional attributes of the agent. Bit n in IBA is `1 << n`.
    pub option_mask: u64,
}

impl Sampling {
    /// Parses the attribute.
    pub fn parse(data: &Data) -> Self {
        Self {
            tick: TICK.raw(data, 0) as u8,
            option_mask: OPTION_MASK.raw(data, 0),
        }
    }

    /// Writes the fields into the attribute.
    pub fn emit(&self, data: &mut Data) {
        TICK.set_raw(data, 0, self.tick.into());
        OPTION_MASK.set_raw(data, 0, self.option_mask);
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::attributes::sampling::PORT_SAMPLES_CONTROL;

    use super::*;
    use crate::mad::pma::DATA_LEN;

    #[test]
    fn fields_are_decoded_from_their_octets() {
        let mut data = [0; DATA_LEN];
        // Octets 0 to 19, then CounterSelect0 and 14, then the last mask.
        data[..20].copy_from_slice(&[
            9, 1, 31, 0xfc, 0xff, 0x12, 0x34, 0x56, 0xff, 0xfe, 3, 0xfd, 1, 0x81, 0, 0, 0, 0x8f,
            0xff, 0xfe,
        ]);
        data[38..40].copy_from_slice(&[0x40, 0x05]);
        data[66..68].copy_from_slice(&[0x40, 0x16]);
        data[72..80].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8]);
        let raw = |name, index| {
            PORT_SAMPLES_CONTROL
                .field(name)
                .map(|field| field.raw(&data, index))
                .expect("declared")
        };
        assert_eq!(
            (raw("OpCode", 0), raw("Tick", 0), raw("CounterWidth", 0)),
            (9, 31, 4)
        );
        assert_eq!(
            (
                raw("CounterMask0", 0),
                raw("CounterMasks1to9", 0),
                raw("CounterMasks10to14", 0)
            ),
            (7, 0x712_3456, 0x7ffe)
        );
        assert_eq!((raw("SampleMechanisms", 0), raw("SampleStatus", 0)), (3, 1));
        assert_eq!(
            (
                raw("CounterSelect", 0),
                raw("CounterSelect", 1),
                raw("CounterSelect", 14)
            ),
            (0x4005, 0, 0x4016)
        );
        assert_eq!(raw("SamplesOnlyOptionMask", 0), 0x0102_0304_0506_0708);
        assert_eq!(
            Sampling::parse(&data),
            Sampling {
                tick: 31,
                option_mask: 0x0181_0000_008f_fffe
            }
        );
    }

    #[test]
    fn emit_is_the_inverse_of_parse_and_keeps_other_bits() {
        let mut data = [0xa5; DATA_LEN];
        let sampling = Sampling {
            tick: 7,
            option_mask: 1 << 55 | 6,
        };
        sampling.emit(&mut data);
        assert_eq!(Sampling::parse(&data), sampling);
        assert_eq!(
            (data[1], data[3], data[11], data[20]),
            (0xa5, 0xa5, 0xa5, 0xa5)
        );
    }
}
