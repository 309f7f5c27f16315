//! Tables of all registers for `docs/inside/registers.md`, made from the tables of the decoder.

use super::{Field, Page, Select};

/// Returns the tables in the order of [`Page::ALL`].
pub fn markdown() -> String {
    Page::ALL.into_iter().map(table).collect()
}

fn table(page: Page) -> String {
    let register = page.register();
    let request = register.request.iter().map(selector);
    let rows: String = request.chain(register.fields.iter().map(row)).collect();
    format!(
        "\n### `{page}`\n\n{}, register {:#06x}, layout `{}`.\n\n\
         | name | values | field | unit | octet | lowest bit | bits | compared |\n\
         |---|---|---|---|---|---|---|---|\n{rows}",
        register.name, register.id, register.layout,
    )
}

/// Returns the row of a field of a request.
fn selector((field, select): &(Field, Select)) -> String {
    let what = match select {
        Select::Port => "the port".to_owned(),
        Select::Plane => "the plane".to_owned(),
        Select::Slot => "the slot".to_owned(),
        Select::Item => "the sensor, module or fan".to_owned(),
        Select::Count => "the number of sensors".to_owned(),
        Select::Constant(value) => format!("always {value}"),
    };
    format!("| *request* | 1 | {}", cells(field, &what))
}

/// Returns the row of a field of a reply.
fn row(field: &Field) -> String {
    let unit = field.unit.map(|unit| unit.to_string()).unwrap_or_default();
    format!(
        "| `{}` | {} | {}",
        field.json,
        field.len,
        cells(field, &unit)
    )
}

/// Returns the last cells of a row.
fn cells(field: &Field, unit: &str) -> String {
    // The register database counts bits in dwords of 32 bits, from the least significant one.
    let (octet, low) = (
        field.first_bit / 32 * 4,
        (32 - field.first_bit % 32).saturating_sub(field.width.into()),
    );
    let compared = if field.is_compared { "yes" } else { "no" };
    format!(
        "`{}` | {unit} | {octet:#04x} | {low} | {} | {compared} |\n",
        field.name, field.width
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_has_the_position_of_the_register_database() {
        let row_of = |page: Page, name| row(page.register().field(name).expect("declared"));
        assert_eq!(
            row_of(Page::Ber, "raw_ber_magnitude"),
            "| `raw_ber_magnitude` | 1 | `raw_ber_magnitude` | setting | 0x68 | 8 | 8 | yes |\n"
        );
        assert_eq!(
            row_of(Page::Module, "vendor_sn"),
            "| `vendor_sn` | 16 | `vendor_sn` | text | 0x44 | 24 | 8 | yes |\n"
        );
        assert_eq!(
            row_of(Page::FecHistogram, "hist"),
            "| `hist` | 21 | `hist` | FEC blocks | 0x08 | 0 | 64 | no |\n"
        );
    }
}
