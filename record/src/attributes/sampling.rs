//! PortSamplesControl (attribute 0x0010, IBA vol. 1, 16.1.3.2): 80 octets. Every agent has it. The
//! attribute controls the sampling of counters by the agent.

use super::{Attribute, Field, Needs};

/// The attribute. CounterSelect has a number of 16 bits for each of the 15 sampling counters. Each
/// of the three masks before CounterSelect has three bits per sampling counter.
pub static PORT_SAMPLES_CONTROL: Attribute = Attribute {
    id: 0x0010,
    name: "PortSamplesControl",
    section: "16.1.3.2",
    needs: Needs::Nothing,
    fields: &[
        Field::new("OpCode", "opcode", 0, 8).setting(),
        Field::new("PortSelect", "port_select", 8, 8),
        TICK,
        Field::new("CounterWidth", "counter_width", 29, 3).setting(),
        Field::new("CounterMask0", "counter_mask0", 34, 3).setting(),
        Field::new("CounterMasks1to9", "counter_masks_1_to_9", 37, 27).setting(),
        Field::new("CounterMasks10to14", "counter_masks_10_to_14", 65, 15).setting(),
        Field::new("SampleMechanisms", "sample_mechanisms", 80, 8).setting(),
        Field::new("SampleStatus", "sample_status", 94, 2).setting(),
        OPTION_MASK,
        Field::new("VendorMask", "vendor_mask", 160, 64).setting(),
        Field::new("SampleStart", "sample_start", 224, 32).setting(),
        Field::new("SampleInterval", "sample_interval", 256, 32).setting(),
        Field::new("Tag", "tag", 288, 16).setting(),
        Field::new("CounterSelect", "counter_select", 304, 16)
            .array(15)
            .setting(),
        Field::new("SamplesOnlyOptionMask", "samples_only_option_mask", 576, 64).setting(),
    ],
};

/// Length of a tick of PortXmitWait, in symbol times, minus one.
pub const TICK: Field = Field::new("Tick", "tick", 16, 8).setting();
/// Optional attributes of the agent.
pub const OPTION_MASK: Field = Field::new("OptionMask", "option_mask", 96, 64).setting();
