//! Reads the physical layer of one port: its bit errors and its module.

use std::fmt::Write;

use ibnet_record::physical::{PhysicalKind, Value, Values};
use ibnet_record::registers::link_down::LinkDown;
use ibnet_record::registers::{Page, ber};
use ibnet_record::types::{Guid, Lid, PortNum};
use ibnet_record::{PhysicalHead, PhysicalRecord};

use super::{Client, NoAnswer};
use crate::mad::query::Query;
use crate::mad::smp::{self, NodeInfo};
use crate::mad::vendor::register::{self, Image, Index};
use crate::mad::vendor::{self, GeneralInfo};
use crate::mad::{MAD_LEN, Mad};
use crate::sweep::physical_record;
use crate::time::Instant;

/// The physical layer of one port.
#[derive(Clone, Debug)]
pub struct PhysicalResult {
    lid: Lid,
    port: PortNum,
    guid: Guid,
    name: String,
    info: GeneralInfo,
    images: Vec<(PhysicalKind, Page, Image)>,
    /// Pages without an answer, and the reason.
    missing: Vec<(Page, NoAnswer)>,
    at: Instant,
}

/// Reads the physical layer of a port.
///
/// # Errors
/// The outer error is a lost transport. The inner error is the reason why NodeInfo or GeneralInfo
/// has no answer, or why GeneralInfo was not sent.
pub fn physical<C: Client>(
    lid: Lid,
    port: PortNum,
    client: &mut C,
) -> Result<Result<PhysicalResult, NoAnswer>, C::Error> {
    let mut mad: Mad = [0; MAD_LEN];
    let subnet = |attribute| {
        Query::Smp(smp::Query {
            attribute,
            modifier: 0,
        })
    };
    let info = match client.request(&subnet(smp::NODE_INFO))?.answer {
        Ok((_, data)) => NodeInfo::parse(&data),
        Err(reason) => return Ok(Err(reason)),
    };
    if info.vendor_id != vendor::NVIDIA {
        return Ok(Err(NoAnswer::OtherVendor(info.vendor_id)));
    }
    let query = Query::Vendor(vendor::Query::GeneralInfo);
    let response = client.request_mad(&query, &mut mad)?;
    let at = match response.answer {
        Ok((at, _)) => at,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut result = PhysicalResult {
        lid,
        port,
        guid: info.port_guid,
        name: String::new(),
        info: GeneralInfo::parse(&mad),
        images: Vec::new(),
        missing: Vec::new(),
        at,
    };
    let name = client.request(&subnet(smp::NODE_DESCRIPTION))?.data();
    result.name = name
        .map(|data| smp::node_description(&data))
        .unwrap_or_default();
    for kind in [PhysicalKind::Phy, PhysicalKind::Module] {
        for page in kind.pages() {
            result.read(kind, *page, client, &mut mad)?;
        }
    }
    Ok(Ok(result))
}

/// Returns the number of planes of a port. `None` if the device does not give it.
///
/// # Errors
/// Returns an error if the transport was lost.
pub fn planes<C: Client>(port: PortNum, client: &mut C) -> Result<Option<u64>, C::Error> {
    let read = read(port, Page::Planes, client, &mut [0; MAD_LEN])?;
    let image = read.ok().map(|(_, image)| image);
    let values = physical_record::values(image.iter().map(|image| (Page::Planes, image)));
    Ok(values.integer("planes"))
}

/// Reads all blocks of a page. Returns the time of the last one.
fn read<C: Client>(
    port: PortNum,
    page: Page,
    client: &mut C,
    mad: &mut Mad,
) -> Result<Result<(Instant, Image), NoAnswer>, C::Error> {
    let (mut image, mut last) = (Image::default(), Instant::ZERO);
    for block in 0..register::blocks(page) {
        let index = Index::of_port(port);
        let query = vendor::Query::Register(register::Query { page, index, block });
        match client.request_mad(&Query::Vendor(query), mad)?.answer {
            Ok((at, _)) => last = at,
            Err(reason) => return Ok(Err(reason)),
        }
        image.take(block, mad);
    }
    Ok(Ok((last, image)))
}

impl PhysicalResult {
    /// Reads all blocks of a page.
    fn read<C: Client>(
        &mut self,
        kind: PhysicalKind,
        page: Page,
        client: &mut C,
        mad: &mut Mad,
    ) -> Result<(), C::Error> {
        match read(self.port, page, client, mad)? {
            Ok((at, image)) => {
                self.images.push((kind, page, image));
                self.at = at;
            }
            Err(reason) => self.missing.push((page, reason)),
        }
        Ok(())
    }

    /// Returns whether any register was answered.
    pub fn has_answers(&self) -> bool {
        !self.images.is_empty()
    }

    /// Iterates over the pages without an answer and the reason for each.
    pub fn missing(&self) -> impl Iterator<Item = (Page, NoAnswer)> {
        self.missing.iter().copied()
    }

    /// Returns when the last register was answered.
    pub fn at(&self) -> Instant {
        self.at
    }

    fn values(&self, kind: PhysicalKind) -> Values {
        let images = self.images.iter().filter(|(of, ..)| *of == kind);
        physical_record::values(images.map(|(_, page, image)| (*page, image)))
    }

    /// Returns the records as lines, or `None` if NodeInfo was not answered, because a record needs
    /// the GUID.
    ///
    /// `ts` is the time of the last reply in nanoseconds since 1970. `slot` is the slot at this
    /// time.
    pub fn records(&self, ts: u64, slot: u64, sampler: &str) -> Vec<u8> {
        let mut lines = Vec::new();
        for kind in [PhysicalKind::Phy, PhysicalKind::Module] {
            let head = PhysicalHead {
                kind: kind.as_str(),
                ts,
                slot,
                sampler,
                guid: self.guid,
                port: Some(self.port),
                lid: self.lid,
                node: &self.name,
                dt_ns: None,
            };
            let values = self.values(kind);
            if !values.0.is_empty() {
                ibnet_record::write(&PhysicalRecord { head, values }, &mut lines);
            }
        }
        lines
    }

    /// Returns the values as text: a heading for each record, and a line for each value.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: &str| {
            // Writing to a String cannot fail.
            let _ = match value {
                "" => writeln!(text, "{name}"),
                _ => writeln!(text, "{:.<39}{value}", format!("{name}:")),
            };
        };
        let (lid, port, info) = (self.lid, self.port, &self.info);
        line(&format!("# Physical layer: Lid {lid} port {port}"), "");
        line("firmware", &info.firmware_version());
        for kind in [PhysicalKind::Phy, PhysicalKind::Module] {
            let values = self.values(kind);
            if kind == PhysicalKind::Module && !values.0.is_empty() {
                line(&format!("# Module: Lid {lid} port {port}"), "");
            }
            if let Some(found) = LinkDown::of(|name| values.integer(name))
                && found.reason > 0
            {
                line("last link down", &found.to_string());
            }
            for (name, ratio) in ratios(&values) {
                line(&name, &shown_ratio(ratio));
            }
            // The parts of bit error ratios are shown as ratios.
            let is_part = |name: &str| name.contains("_coef") || name.contains("_magnitude");
            for (name, value) in values.0.iter().filter(|(name, _)| !is_part(name)) {
                line(name, &shown(value));
            }
        }
        text
    }
}

/// Returns the bit error ratios: those of the device, and that of all errors since the counters
/// were cleared.
fn ratios(values: &Values) -> Vec<(String, f64)> {
    let of = |prefix: &str| {
        let part = |part: &str| values.integer(&format!("{prefix}_{part}"));
        Some((prefix.to_owned(), ber(part("coef")?, part("magnitude")?)))
    };
    let since = || {
        let bits = values
            .integer("phy_received_bits")
            .filter(|bits| *bits > 0)?;
        let errors = values.integer("phy_corrected_bits")?;
        Some((
            "raw_ber_since_clear".to_owned(),
            errors as f64 / bits as f64,
        ))
    };
    let all = ["raw_ber", "effective_ber", "symbol_ber"].map(of);
    all.into_iter().chain([since()]).flatten().collect()
}

/// Returns a bit error ratio as text. Devices report 15e-255 if there were no errors.
fn shown_ratio(ratio: f64) -> String {
    if ratio < 1e-200 {
        "0".to_owned()
    } else {
        format!("{ratio:.1e}")
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::Integer(value) => value.to_string(),
        Value::Float(value) => value.to_string(),
        Value::Text(text) if text.is_empty() => "-".to_owned(),
        Value::Text(text) => text.clone(),
        Value::Texts(texts) => texts.join(" "),
        Value::Integers(values) => {
            let values: Vec<_> = values.iter().map(u64::to_string).collect();
            values.join(" ")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;
    use crate::sweep::query::{DATA_LEN, Response};

    /// A device of a vendor. Counts the requests of class 0x0A, and answers none of them.
    struct Device {
        vendor_id: u32,
        asked: usize,
    }

    impl Client for Device {
        type Error = Infallible;

        fn request_mad(&mut self, query: &Query, mad: &mut Mad) -> Result<Response, Infallible> {
            let is_register = matches!(query, Query::Vendor(_));
            self.asked += usize::from(is_register);
            // NodeInfo of a switch whose VendorID is that of the device.
            let mut info = [0; DATA_LEN];
            info[2] = 2;
            info[37..40].copy_from_slice(&self.vendor_id.to_be_bytes()[1..]);
            *mad = [0; MAD_LEN];
            Ok(Response {
                mads: 1,
                rtt: Duration::ZERO,
                rtt_min: None,
                answer: if is_register {
                    Err(NoAnswer::Silent)
                } else {
                    Ok((Instant::ZERO, info))
                },
            })
        }
    }

    #[test]
    fn only_devices_of_nvidia_get_requests_of_the_vendor_class() {
        for (vendor_id, expected) in [
            (vendor::NVIDIA, NoAnswer::Silent),
            (0x66a, NoAnswer::OtherVendor(0x66a)),
        ] {
            let mut device = Device {
                vendor_id,
                asked: 0,
            };
            let result = physical(Lid(7), PortNum(1), &mut device).expect("infallible");
            assert_eq!(result.err(), Some(expected));
            assert_eq!(device.asked > 0, vendor_id == vendor::NVIDIA);
        }
    }
}
