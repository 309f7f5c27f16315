//! Data for each service level (SL): PortXmitDataSL (attribute 0x0036) and PortRcvDataSL (0x0037),
//! both from IBA vol. 1, A13.6.5, and both optional.
//!
//! Each counter is an array of 16 values, indexed by the SL. A value has 32 bits and counts words
//! of 4 bytes, so at the full rate of an NDR link it is saturated after 0.34 s.

use super::{Attribute, Field, Needs, Unit};

/// Transmitted data for each SL: 68 octets.
pub static PORT_XMIT_DATA_SL: Attribute = Attribute {
    id: 0x0036,
    name: "PortXmitDataSL",
    section: "A13.6.5",
    needs: Needs::Nothing,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("XmtDataSL", "port_xmit_data_sl_bytes", 32, 32)
            .array(16)
            .counts(Unit::Words)
            .needs(Needs::Option(55)),
    ],
};

/// Received data for each SL: 68 octets.
pub static PORT_RCV_DATA_SL: Attribute = Attribute {
    id: 0x0037,
    name: "PortRcvDataSL",
    section: "A13.6.5",
    needs: Needs::Nothing,
    fields: &[
        Field::new("PortSelect", "port_select", 8, 8),
        Field::new("CounterSelect", "counter_select", 16, 16),
        Field::new("RcvDataSL", "port_rcv_data_sl_bytes", 32, 32)
            .array(16)
            .counts(Unit::Words)
            .needs(Needs::Option(56)),
    ],
};
