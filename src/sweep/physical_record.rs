//! The writer of the records of the physical layer: it turns the registers of a reading into values.

use ibnet_record::attributes::Field;
use ibnet_record::physical::{TX_BIAS, Value, Values, column};
use ibnet_record::registers::Page;
use ibnet_record::schema::Kind;

use crate::mad::vendor::register::Image;

/// Returns the values of these pages. If several of them have a field of the same name, the first
/// one gives the value. A field whose block was not received is left out.
pub fn values<'a>(images: impl IntoIterator<Item = (Page, &'a Image)>) -> Values {
    let mut values = Values::default();
    for (page, image) in images {
        for field in page.register().fields {
            let (name, kind) = column(field);
            if values.get(name).is_none()
                && let Some(value) = value(page, field, image, kind)
            {
                values.0.push((name, value));
            }
        }
    }
    values
}

/// Returns the value of a field.
fn value(page: Page, field: &'static Field, image: &Image, kind: Kind) -> Option<Value> {
    let first = image.raw(field, 0)?;
    let all = |of: &dyn Fn(u64) -> u64| {
        let values = (0..field.len).map(|index| image.raw(field, index).map(of));
        values.collect::<Option<Vec<_>>>().map(Value::Integers)
    };
    match kind {
        Kind::Text => Some(Value::Text(image.text(field))),
        Kind::Float => Some(Value::Float((field.number(first) * 1e6).round() / 1e6)),
        Kind::Integers if column(field).0 == TX_BIAS => {
            let scaling = page.register().field("tx_bias_scaling_factor");
            let scaling = scaling.and_then(|field| image.raw(field, 0)).unwrap_or(0);
            all(&|raw| (field.number(raw) * 1000.0).round() as u64 * (1 << scaling))
        }
        Kind::Integers => all(&|raw| field.number(raw) as u64),
        _ => Some(Value::Integer(first)),
    }
}
