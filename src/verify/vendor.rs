//! Reads every register of a few devices once, for a report of raw replies: `verify --vendor`.
//!
//! Serial numbers, and the GUID of the peer, become zeros before anything is written.

use std::fmt::Write;

use ibnet_record::registers::{Page, Select};
use ibnet_record::types::{NodeKind, PortNum};
use serde::{Deserialize, Serialize};

use super::models::Model;
use crate::mad::Mad;
use crate::mad::pma::Bits;
use crate::mad::query::Query;
use crate::mad::vendor::register::{self, BLOCK_LEN, Image, Index};
use crate::mad::vendor::{self, GeneralInfo};
use crate::sweep::query::{Client, NoAnswer};

/// Version of the format.
const SCHEMA: u32 = 1;

/// The document.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct VendorReport {
    schema: u32,
    /// Version of ibnet.
    pub version: String,
    /// Name and release of the kernel.
    pub kernel: String,
    /// One device of each model and firmware.
    pub devices: Vec<VendorDevice>,
    /// Number of MADs that were sent.
    pub mads_sent: u64,
}

/// The registers of one device.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct VendorDevice {
    kind: String,
    vendor_id: u32,
    device_id: u16,
    revision: u32,
    /// Version of the firmware.
    pub firmware: String,
    /// Identifier of the firmware's parameter set, which names the product.
    pub psid: String,
    /// Whether GeneralInfo reports that the device has registers.
    pub has_registers: bool,
    /// The replies in the order of the requests.
    pub replies: Vec<PageReply>,
}

/// The reply to a request for one block of a page.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PageReply {
    /// Name of the page.
    pub page: String,
    /// Number of the block.
    pub block: u8,
    /// Why there is no reply. `None` if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The octets of the block in hexadecimal, without the zeros at the end.
    #[serde(default)]
    pub octets: String,
}

/// Fields that identify one device or one cable of the site.
const HIDDEN: [&str; 2] = ["vendor_sn", "serial_number"];

impl VendorReport {
    /// Creates an empty report.
    pub fn new(kernel: String) -> Self {
        Self {
            schema: SCHEMA,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            kernel,
            ..Self::default()
        }
    }

    /// Returns the report as JSON.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }
}

/// Reads GeneralInfo of a device. Returns `None` if it is not answered.
///
/// # Errors
/// Returns an error if the transport is lost.
pub fn general_info<C: Client>(client: &mut C) -> Result<(Option<GeneralInfo>, u32), C::Error> {
    let mut mad: Mad = [0; crate::mad::MAD_LEN];
    let response = client.request_mad(&Query::Vendor(vendor::Query::GeneralInfo), &mut mad)?;
    let info = response.answer.is_ok().then(|| GeneralInfo::parse(&mad));
    Ok((info, response.mads))
}

impl VendorDevice {
    /// Creates a device without replies.
    pub fn new(model: &Model, info: &GeneralInfo) -> Self {
        let psid = info.psid.iter().take_while(|octet| **octet != 0);
        Self {
            kind: model.kind.map_or("", NodeKind::as_str).to_owned(),
            vendor_id: model.vendor_id,
            device_id: model.device_id,
            revision: model.revision,
            firmware: info.firmware_version(),
            psid: psid
                .map(|octet| char::from(*octet))
                .filter(char::is_ascii_graphic)
                .collect(),
            has_registers: info.has_registers(),
            replies: Vec::new(),
        }
    }

    /// Reads all pages of one port, and of the device if it is a switch. Calls `pace` with the
    /// number of MADs after each request, and stops if it returns false.
    ///
    /// # Errors
    /// Returns an error if the transport is lost.
    pub fn read<C: Client>(
        &mut self,
        kind: NodeKind,
        port: PortNum,
        client: &mut C,
        mut pace: impl FnMut(u32) -> bool,
    ) -> Result<(), C::Error> {
        let mut mad: Mad = [0; crate::mad::MAD_LEN];
        for page in Page::ALL {
            let of_port = page.register().selector(Select::Port).is_some();
            if !of_port && kind != NodeKind::Switch {
                continue;
            }
            for block in 0..register::blocks(page) {
                let index = Index {
                    port,
                    count: SENSORS,
                    ..Index::default()
                };
                let query = vendor::Query::Register(register::Query { page, index, block });
                let response = client.request_mad(&Query::Vendor(query), &mut mad)?;
                let answer = response.answer.map(|_| &mad);
                self.replies.push(PageReply::new(page, block, answer));
                if !pace(response.mads) {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the pages that were answered, with their octets.
    pub fn images(&self) -> Vec<(Page, Image)> {
        let mut images: Vec<(Page, Image)> = Vec::new();
        for reply in self.replies.iter().filter(|reply| reply.missing.is_none()) {
            let Some((page, mad)) = Page::named(&reply.page).zip(reply.mad()) else {
                continue;
            };
            if images.last().is_none_or(|(last, _)| *last != page) {
                images.push((page, Image::default()));
            }
            if let Some((_, image)) = images.last_mut() {
                image.take(reply.block, &mad);
            }
        }
        images
    }
}

/// Number of temperature sensors that are read.
const SENSORS: u8 = 16;

impl PageReply {
    fn new(page: Page, block: u8, answer: Result<&Mad, NoAnswer>) -> Self {
        let octets = answer.map(|mad| {
            let mut octets: [u8; BLOCK_LEN] =
                *mad.last_chunk().expect("a block is shorter than a MAD");
            hide(page, block, &mut octets);
            let used = octets
                .iter()
                .rposition(|octet| *octet != 0)
                .map_or(0, |last| last + 1);
            octets[..used]
                .iter()
                .fold(String::new(), |mut text, octet| {
                    // Writing to a String cannot fail.
                    let _ = write!(text, "{octet:02x}");
                    text
                })
        });
        Self {
            page: page.as_str().to_owned(),
            block,
            missing: octets.as_ref().err().map(ToString::to_string),
            octets: octets.unwrap_or_default(),
        }
    }

    /// Returns a MAD with these octets. Returns `None` if they are not hexadecimal.
    fn mad(&self) -> Option<Mad> {
        let mut mad = [0; crate::mad::MAD_LEN];
        let block = mad.last_chunk_mut::<BLOCK_LEN>()?;
        for (octet, digits) in block.iter_mut().zip(self.octets.as_bytes().chunks(2)) {
            *octet = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
        }
        Some(mad)
    }
}

/// Pages that identify a device or a module. The report has only their known fields: octets without
/// a field can be an address, such as the MAC of a switch.
const IDENTIFYING: [Page; 4] = [Page::Device, Page::System, Page::Module, Page::Partner];

/// Sets what identifies a device to zero.
fn hide(page: Page, block: u8, octets: &mut [u8; BLOCK_LEN]) {
    let begin = 8 * u16::from(block) * BLOCK_LEN as u16;
    let before = *octets;
    if IDENTIFYING.contains(&page) {
        octets.fill(0);
    }
    for field in page.register().fields {
        let is_hidden = page == Page::Partner || HIDDEN.contains(&field.name);
        for index in 0..field.len {
            let first = field.first_bit + u16::from(index) * u16::from(field.stride);
            let end = first + u16::from(field.width);
            if first >= begin && end <= begin + 8 * BLOCK_LEN as u16 {
                let shifted = ibnet_record::attributes::Field {
                    first_bit: first - begin,
                    len: 1,
                    ..*field
                };
                let value = if is_hidden {
                    0
                } else {
                    shifted.raw(&before, 0)
                };
                shifted.set_raw(octets, 0, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::time::Duration;

    use super::*;
    use crate::mad::header::METHOD_GET_RESP;
    use crate::sweep::query::Response;
    use crate::time::Instant;
    use ibnet_record::types::Tid;

    /// Answers every request for a register with ones.
    struct Ones;

    impl Client for Ones {
        type Error = Infallible;

        fn request_mad(&mut self, query: &Query, mad: &mut Mad) -> Result<Response, Infallible> {
            query.emit(Tid(1), mad);
            mad[3] = METHOD_GET_RESP;
            mad[36..].fill(0xff);
            let data = *crate::mad::pma::data(mad);
            Ok(Response {
                mads: 1,
                rtt: Duration::ZERO,
                rtt_min: None,
                answer: Ok((Instant::ZERO, data)),
            })
        }
    }

    fn model() -> Model {
        Model {
            kind: Some(NodeKind::Switch),
            vendor_id: 0x2c9,
            device_id: 0xd2f0,
            revision: 0,
        }
    }

    #[test]
    fn report_has_all_pages_and_no_serial_number() {
        let mut device = VendorDevice::new(&model(), &GeneralInfo::default());
        device
            .read(NodeKind::Switch, PortNum(1), &mut Ones, |_| true)
            .expect("infallible");
        let report = VendorReport {
            devices: vec![device.clone()],
            ..VendorReport::new("Linux".to_owned())
        };
        let read: VendorReport = serde_json::from_str(&report.to_json()).expect("it was written");
        assert_eq!(read, report);
        // Octets 0x10 to 0x17 of MGIR are the base MAC of a switch, from which its GUID follows.
        let of_device = |reply: &&PageReply| reply.page == Page::Device.as_str();
        let reply = device.replies.iter().find(of_device).expect("it was read");
        assert_eq!(reply.octets.get(32..48), Some("0000000000000000"));
        let images = device.images();
        assert_eq!(images.len(), Page::ALL.len());
        for (page, image) in &images {
            for field in page.register().fields {
                let is_hidden = *page == Page::Partner || HIDDEN.contains(&field.name);
                let expected = if is_hidden { 0 } else { field.all_ones() };
                for index in 0..field.len {
                    assert_eq!(
                        image.raw(field, index),
                        Some(expected),
                        "{page} {}",
                        field.name
                    );
                }
            }
        }
    }

    #[test]
    fn reading_stops_when_the_budget_is_used() {
        let mut device = VendorDevice::new(&model(), &GeneralInfo::default());
        let mut left = 5;
        let pace = |mads| {
            left -= mads;
            left > 0
        };
        device
            .read(NodeKind::Hca, PortNum(1), &mut Ones, pace)
            .expect("infallible");
        assert_eq!(device.replies.len(), 5);
    }
}
