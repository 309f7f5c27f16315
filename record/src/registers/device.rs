//! Registers of the condition of a switch: sensors, fans, chip and firmware.
//!
//! A switch without a sensor or a fan refuses the request. The value is then absent; it is never 0.

use super::{Field, Register, SECONDS, Select, Unit, at, code, select, text, time};

/// Unit of the sensors of a switch: 1/8 degree Celsius.
const CELSIUS: Unit = Unit::Celsius(8);
const RPM: Unit = Unit::Measure("rpm", 1, 1);
const VOLTS: Unit = Unit::Measure("V", 1, 100);
const AMPERES: Unit = Unit::Measure("A", 1, 100);

/// Slot of a modular switch.
const SLOT: (Field, Select) = (select("slot_index", 0, 16, 4), Select::Slot);

/// MTMP (0x900A): one temperature sensor. Sensor 0 is the chip, and sensor 64 + m is module m.
///
/// A request has a bit `mtr`, which clears the max temperature. The table does not have it.
pub static MTMP: Register = Register {
    id: 0x900a,
    name: "MTMP",
    layout: "mtmp",
    request: &[(select("sensor_index", 0, 0, 12), Select::Item), SLOT],
    fields: &[
        at("temperature", "temperature_c", 0x04, 0, 16).counts(CELSIUS),
        at("max_temperature", "max_temperature_c", 0x08, 0, 16).counts(CELSIUS),
        at(
            "temperature_threshold_hi",
            "temperature_high_c",
            0x0c,
            0,
            16,
        )
        .counts(CELSIUS),
        at("temperature_threshold_lo", "temperature_low_c", 0x10, 0, 16).counts(CELSIUS),
        text("sensor_name", 0x18, 8),
    ],
};

/// MTCAP (0x9009): which sensors of the chip and the board exist. Bit n of `sensor_map` is sensor
/// n.
pub static MTCAP: Register = Register {
    id: 0x9009,
    name: "MTCAP",
    layout: "mtcap",
    request: &[SLOT],
    fields: &[
        code("sensor_count", 0, 0, 7),
        Field::new("sensor_map", "sensor_map", 8 * 0x08, 64).setting(),
    ],
};

/// Sensors of one request of [`MTBR`], so that the reply is one block.
pub const MAX_SENSORS: u8 = 51;

/// MTBR (0x900F): several temperature sensors, from sensor `base_sensor_index`. 0x8000 is -4096
/// degrees and means that a sensor is absent.
pub static MTBR: Register = Register {
    id: 0x900f,
    name: "MTBR",
    layout: "mtbr",
    request: &[
        (select("base_sensor_index", 0, 0, 12), Select::Item),
        SLOT,
        (select("num_rec", 0x04, 0, 8), Select::Count),
    ],
    fields: &[
        at("max_temperature", "max_temperature_c", 0x10, 16, 16)
            .array(MAX_SENSORS)
            .stride(32)
            .counts(CELSIUS)
            .not_compared(),
        at("temperature", "temperature_c", 0x10, 0, 16)
            .array(MAX_SENSORS)
            .stride(32)
            .counts(CELSIUS)
            .not_compared(),
    ],
};

/// MFCR (0x9001): which fans exist. Bit n is the tachometer n of [`MFSM`].
pub static MFCR: Register = Register {
    id: 0x9001,
    name: "MFCR",
    layout: "mfcr",
    request: &[],
    fields: &[
        code("tacho_active", 0x04, 16, 16),
        code("pwm_active", 0x04, 0, 5),
    ],
};

/// MFSM (0x9003): speed of a fan.
pub static MFSM: Register = Register {
    id: 0x9003,
    name: "MFSM",
    layout: "mfsm",
    request: &[(select("tacho", 0, 24, 8).not_compared(), Select::Item)],
    fields: &[at("rpm", "rpm", 0x04, 0, 16).counts(RPM)],
};

/// FORE (0x9007): fans that are slower or faster than their limits, one bit for each tachometer.
pub static FORE: Register = Register {
    id: 0x9007,
    name: "FORE",
    layout: "fore",
    request: &[],
    fields: &[
        code("fan_under_limit", 0, 16, 16),
        code("fan_over_limit", 0x04, 16, 16),
    ],
};

/// MGIR (0x9020): chip and firmware. `year`, `month` and `day` are binary coded decimals.
pub static MGIR: Register = Register {
    id: 0x9020,
    name: "MGIR",
    layout: "mgir",
    request: &[],
    fields: &[
        code("device_hw_revision", 0, 16, 16),
        code("device_id", 0, 0, 16),
        code("num_ports", 0x04, 16, 12).not_compared(),
        time("uptime", "uptime_s", 0x1c, SECONDS),
        code("month", 0x28, 24, 8),
        code("day", 0x28, 16, 8),
        code("year", 0x28, 0, 16),
        text("psid", 0x30, 16),
        code("ini_file_version", 0x40, 0, 32),
        code("extended_major", 0x44, 0, 32),
        code("extended_minor", 0x48, 0, 32),
        code("extended_sub_minor", 0x4c, 0, 32),
    ],
};

/// MSGI (0x9021): serial number and product of the system.
pub static MSGI: Register = Register {
    id: 0x9021,
    name: "MSGI",
    layout: "msgi",
    request: &[],
    fields: &[
        text("serial_number", 0, 24),
        text("part_number", 0x20, 20),
        text("revision", 0x38, 4),
        text("product_name", 0x40, 64),
    ],
};

/// MVCR (0x900C): voltage and current of a sensor.
pub static MVCR: Register = Register {
    id: 0x900c,
    name: "MVCR",
    layout: "mvcr",
    request: &[
        (select("sensor_index", 0, 0, 8).not_compared(), Select::Item),
        SLOT,
    ],
    fields: &[
        at("voltage_sensor_value", "voltage_v", 0x04, 0, 16).counts(VOLTS),
        at("current_sensor_value", "current_a", 0x08, 0, 32)
            .counts(AMPERES)
            .not_compared(),
        text("sensor_name", 0x10, 8),
    ],
};
