//! Reads the registers of a device with the library. Prints the request and the reply as words of
//! 32 bits, and the fields. The kernel tests compare the words with those of mstflint.
//!
//!     cargo run --example registers -- 4 1 ber module
//!
//! The second argument is the port, or the number of the sensor, module or fan.

use std::time::Duration;

use anyhow::{Context, bail};
use ibnet::mad::exchange::{Completion, Outcome, Target};
use ibnet::mad::query::Query;
use ibnet::mad::transport::Transport;
use ibnet::mad::transport::umad::{UmadTransport, ports};
use ibnet::mad::vendor::register::{self, Image, Index, blocks};
use ibnet::mad::vendor::{self, GeneralInfo};
use ibnet::mad::{MAD_LEN, Mad};
use ibnet::sweep::driver::{Clock, SystemClock};
use ibnet_record::registers::Page;
use ibnet_record::types::{HcaName, Lid, PortNum, Tid};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [lid, item, pages @ ..] = &args[..] else {
        bail!("usage: registers LID PORT-OR-ITEM PAGE...");
    };
    let mut device = Device::open(Lid(lid.parse()?))?;
    let item: u16 = item.parse()?;
    let index = Index {
        port: PortNum(u8::try_from(item).unwrap_or(u8::MAX)),
        item,
        count: 2,
        ..Index::default()
    };
    let info = GeneralInfo::parse(&device.read(vendor::Query::GeneralInfo)?);
    show_device(&info);
    if !info.has_registers() {
        bail!("the device has no AccessRegisterGMP");
    }
    for name in pages {
        let page = Page::named(name).with_context(|| format!("ibnet has no page {name}"))?;
        let register = page.register();
        let (mut image, mut words) = (Image::default(), Vec::new());
        for block in 0..blocks(page) {
            let query = vendor::Query::Register(register::Query { page, index, block });
            if block == 0 {
                let mut request = [0; MAD_LEN];
                query.emit(Tid(0), &mut request);
                show_words("request", page, &words_of(&request)[..2]);
            }
            let reply = device.read(query)?;
            image.take(block, &reply);
            words.extend(words_of(&reply));
        }
        words.truncate(register.octets().div_ceil(4));
        show_words("reply", page, &words);
        for field in register.fields {
            let values = (0..field.len).filter_map(|index| image.raw(field, index));
            let values: Vec<String> = values.map(|value| format!(" {value:x}")).collect();
            show(&format!("field {page} {}{}", field.name, values.concat()));
        }
    }
    Ok(())
}

/// Returns the words of a block of a register.
fn words_of(mad: &Mad) -> Vec<u32> {
    let words = mad[MAD_LEN - register::BLOCK_LEN..].chunks_exact(4);
    words
        .map(|octets| {
            octets
                .iter()
                .fold(0, |word, octet| word << 8 | u32::from(*octet))
        })
        .collect()
}

fn show_words(what: &str, page: Page, words: &[u32]) {
    let id = page.register().id;
    let words: Vec<String> = words.iter().map(|word| format!(" {word:08x}")).collect();
    show(&format!("{what} {page} {id:x}{}", words.concat()));
}

/// Prints GeneralInfo in the notation of `vendstat -N`.
fn show_device(info: &GeneralInfo) {
    let (major, minor, sub_minor) = info.firmware;
    let psid = String::from_utf8_lossy(&info.psid);
    show(&format!("hw_dev_rev:  0x{:04x}", info.hw_revision));
    show(&format!("hw_dev_id:   0x{:04x}", info.device_id));
    show(&format!("hw_uptime:   0x{:08x}", info.uptime_s));
    show(&format!(
        "fw_version:  {major:02}.{minor:02}.{sub_minor:02}"
    ));
    show(&format!("fw_psid:     '{}'", psid.trim_end_matches('\0')));
}

#[expect(clippy::print_stdout, reason = "an example prints its result")]
fn show(line: &str) {
    println!("{line}");
}

/// A device, which gets one request after another.
struct Device {
    transport: UmadTransport,
    clock: SystemClock,
    lid: Lid,
    tid: u32,
}

impl Device {
    fn open(lid: Lid) -> anyhow::Result<Self> {
        Ok(Self {
            transport: UmadTransport::open(&ports::find(&HcaName::default())?)?,
            clock: SystemClock::start(),
            lid,
            tid: 0,
        })
    }

    /// Sends a request and returns the reply.
    fn read(&mut self, query: vendor::Query) -> anyhow::Result<Mad> {
        self.tid += 1;
        let (tid, query, mut mad) = (Tid(self.tid), Query::Vendor(query), [0; MAD_LEN]);
        query.emit(tid, &mut mad);
        let target = Target::general(self.lid, 0, 0, Duration::from_millis(500));
        self.transport.send(&target, &mad, self.clock.now())?;
        let limit = Duration::from_secs(1);
        while let Some(completion) = self.transport.recv(&mut mad, limit, self.clock.now())? {
            let Completion {
                tid: of,
                outcome: Outcome::Reply { slid, len },
            } = completion
            else {
                break;
            };
            if (of, slid) == (tid, self.lid) {
                query.check(&mad, len)?;
                return Ok(mad);
            }
        }
        bail!("LID {} does not answer", self.lid)
    }
}
