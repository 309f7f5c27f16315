//! Compares `docs/records.md` with the code: its tables, the fields of real sweeps, and the lengths
//! of lines.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use ibnet::mad::exchange::{Completion, Outcome};
use ibnet::mad::header::{METHOD_GET_RESP, MadStatus};
use ibnet::mad::pma::{Bits, Capabilities};
use ibnet::mad::smp::{
    CLASS_SUBN_LID_ROUTED, FEC_MODE_ACTIVE, NODE_INFO, NodeInfo, PORT_INFO_EXTENDED,
};
use ibnet::mad::vendor::register::{self, Image};
use ibnet::mad::{MAD_LEN, Mad, pma};
use ibnet::sweep::blocked::TickOf;
use ibnet::sweep::counter::{Columns, Rates, Reading};
use ibnet::sweep::engine::{Config, DevicePlan, Engine, Item, Items};
use ibnet::sweep::physical_record;
use ibnet::sweep::port_record::{PortIdentity, PortRecord};
use ibnet::sweep::stats;
use ibnet::time::Instant;
use ibnet::topology::synthetic::FatTree;
use ibnet_record::attributes::Group;
use ibnet_record::physical::MAX_ITEMS;
use ibnet_record::reader::Type;
use ibnet_record::registers::Page;
use ibnet_record::strict::{self, Line};
use ibnet_record::types::{Guid, Lid, LinkRate, NodeKind, PortLimits, PortNum};
use ibnet_record::{
    EventName, EventRecord, HistogramRecord, LinkSource, Of, PhysicalHead, PhysicalKind,
    PhysicalRecord, Presence, RoutesRecord, RoutesTable, Status, is_dt_slots_field, tables,
};

const DOCUMENT: &str = include_str!("../../docs/records.md");
const RENEW: &str = "cargo run --no-default-features --example records";

/// Heading of the fields that every record has.
const COMMON: &str = "Common fields";

/// Largest length of a line in octets with the default groups.
const SHORT: usize = 4 << 10;

/// Largest length of a line in octets with all groups.
const LONG: usize = 16 << 10;

#[test]
fn parts_of_documents_are_those_of_the_code() {
    for document in tables::DOCUMENTS {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(document);
        let text = fs::read_to_string(path).unwrap();
        assert!(
            tables::update(&text).as_ref() == Some(&text),
            "{document} does not have the parts of the code; update it:\n\n    {RENEW}\n"
        );
    }
}

/// Returns the rows of the tables between a heading and the next one, without the column names.
#[track_caller]
fn rows(heading: &str) -> Vec<Vec<&'static str>> {
    let title = |line: &&str| {
        line.starts_with('#') && line.trim_start_matches('#').trim().trim_matches('`') == heading
    };
    let section = DOCUMENT
        .lines()
        .skip_while(|line| !title(line))
        .skip(1)
        .take_while(|line| !line.starts_with('#'));
    let rows = section
        .filter(|line| line.starts_with("| "))
        .map(|line| line.trim_matches('|').split(" | ").map(str::trim).collect());
    let rows: Vec<Vec<_>> = rows.skip(1).collect();
    assert!(!rows.is_empty(), "{heading} has no table");
    rows
}

/// Returns the names between backquotes in the first column.
fn names(heading: &str) -> BTreeSet<&'static str> {
    rows(heading)
        .iter()
        .filter_map(|row| row[0].strip_prefix('`')?.strip_suffix('`'))
        .collect()
}

/// Returns the documented fields of a record type with their JSON types, in order, without
/// counters.
fn fields(kind: &str) -> Vec<(&'static str, &'static str)> {
    let rows = [rows(COMMON), rows(kind)].concat();
    rows.into_iter()
        .filter_map(|row| Some((row[0].strip_prefix('`')?.strip_suffix('`')?, row[1])))
        .collect()
}

/// Returns whether a value has the documented type. Null has every type.
fn is_of_type(value: &serde_json::Value, name: &str) -> bool {
    let is_text = |value: &serde_json::Value| value.is_string();
    value.is_null()
        || match name {
            "string" => is_text(value),
            "integer" => value.is_u64() || value.is_i64(),
            "float" => value.is_f64(),
            "array of strings" => value
                .as_array()
                .is_some_and(|values| values.iter().all(is_text)),
            "array of integers" => value
                .as_array()
                .is_some_and(|values| values.iter().all(serde_json::Value::is_u64)),
            _ => panic!("docs/records.md has an unknown type: {name}"),
        }
}

fn counters() -> BTreeSet<&'static str> {
    Group::ALL
        .into_iter()
        .flat_map(|group| names(group.as_str()))
        .collect()
}

fn kind(record: &Line) -> &'static str {
    match record {
        Line::Start(_) => "start",
        Line::Port(_) => "port",
        Line::Sweep(_) => "sweep",
        Line::Histogram(_) => "histogram",
        Line::Event(_) => "event",
        Line::Physical(record) => PhysicalKind::named(&record.head.kind)
            .expect("the strict reader accepted the type")
            .as_str(),
        Line::Routes(_) => "routes",
    }
}

/// Checks that a line has the documented fields in the documented order, with the documented types.
/// Returns the record and the names of its counters.
#[track_caller]
fn check(line: &str, most: usize) -> (Line, BTreeSet<String>) {
    assert!(line.len() < most, "{} octets: {line}", line.len());
    let record = strict::parse(line).unwrap_or_else(|error| panic!("{error}: {line}"));
    let mut found: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).unwrap();
    assert!(
        line.starts_with("{\"type\":\"") && found.values().all(|value| !value.is_object()),
        "{line}"
    );
    let kind = kind(&record);
    let mut end = 0;
    for (name, of_type) in fields(kind) {
        let Some(value) = found.remove(name) else {
            assert!(
                ibnet_record::schema::fields(Type::named(kind).unwrap())
                    .iter()
                    .any(|field| field.name == name && field.presence == Presence::Optional),
                "{name} is documented and missing in {line}"
            );
            continue;
        };
        assert!(
            is_of_type(&value, of_type),
            "{name} is not a {of_type} in {line}"
        );
        let place = line.find(&format!("\"{name}\":")).unwrap();
        assert!(
            place > end,
            "{name} is out of the documented order in {line}"
        );
        end = place;
    }
    // The page describes these fields by the name of the group.
    let others: BTreeSet<String> = found
        .into_iter()
        .map(|(name, _)| name)
        .filter(|name| !is_dt_slots_field(name))
        .collect();
    assert!(
        kind == "port" || others.is_empty(),
        "{others:?} is not documented: {line}"
    );
    let counters = counters();
    assert!(
        others.iter().all(|name| counters.contains(name.as_str())),
        "not all of {others:?} are documented"
    );
    if let Line::Event(event) = &record {
        let is_of = (
            event.guid.is_some(),
            event.lid.is_some(),
            event.port.is_some(),
        );
        let of = EventName::named(&event.event)
            .expect("the strict reader accepted the name")
            .of();
        assert_eq!(
            is_of,
            (of != Of::Sampler, of != Of::Sampler, of == Of::Port),
            "{line}"
        );
    }
    (record, others)
}

#[test]
fn records_of_a_sweep_have_exactly_the_documented_fields() {
    let dir = tempfile::tempdir().unwrap();
    let tree = FatTree {
        leaves: 2,
        hosts: 3,
        spines: 2,
        trunk: 1,
        radix: 8,
    };
    fs::write(dir.path().join("net.p"), tree.blueprint().ports_report()).unwrap();
    fs::write(
        dir.path().join("ibnet.toml"),
        "grace = \"20ms\"\n[simulated]\ndead = [\"node00005\"]\n[physical]\nenabled = true\nbudget = 1.0\n[routes]\nenabled = true\n",
    )
    .unwrap();
    for (groups, most) in [(&[][..], SHORT), (&["--groups", "all"], LONG)] {
        let args = [
            "-c",
            "ibnet.toml",
            "--simulate",
            "net.p",
            "--interval",
            "200ms",
            "--sweeps",
            "2",
        ];
        let run = assert_cmd::Command::new(env!("CARGO_BIN_EXE_ibnet-sweep"))
            .current_dir(dir.path())
            .args([&args[..], groups].concat())
            .timeout(crate::HANGS)
            .output()
            .unwrap();
        assert!(
            run.status.success(),
            "{}",
            String::from_utf8_lossy(&run.stderr)
        );
        let mut types = BTreeSet::new();
        for line in std::str::from_utf8(&run.stdout).unwrap().lines() {
            types.insert(kind(&check(line, most).0));
        }
        // How many registers are read in this time depends on the speed of the machine.
        types.retain(|kind| PhysicalKind::named(kind).is_none() && *kind != "routes");
        assert_eq!(
            types.into_iter().collect::<Vec<_>>(),
            ["event", "histogram", "port", "start", "sweep"]
        );
    }
}

/// Returns 64 characters, each of which takes six octets in JSON.
fn name() -> String {
    "\u{1}".repeat(64)
}

/// Answers every request of an engine with all ones: counters are saturated, and agents have these
/// capabilities.
fn answer_all(engine: &mut Engine, capabilities: Capabilities, fec_mode: u64, now: Instant) {
    let mut mad: Mad = [0; MAD_LEN];
    while let Some((target, tid)) = engine.poll_transmit(now, &mut mad) {
        mad[3] = METHOD_GET_RESP;
        let (class, attribute) = (mad[1], u16::from_be_bytes([mad[16], mad[17]]));
        let data = pma::data_mut(&mut mad);
        match (class, attribute) {
            (CLASS_SUBN_LID_ROUTED, NODE_INFO) => NodeInfo {
                port_guid: Guid(u64::MAX),
                ..NodeInfo::default()
            }
            .emit(data),
            (CLASS_SUBN_LID_ROUTED, PORT_INFO_EXTENDED) => {
                FEC_MODE_ACTIVE.set_raw(data, 0, fec_mode);
            }
            (CLASS_SUBN_LID_ROUTED, _) => {}
            (_, 0x0001) => capabilities.emit(data),
            // The first two octets repeat PortSelect.
            _ => data[2..].fill(0xff),
        }
        engine.handle_completion(
            &Completion {
                tid,
                outcome: Outcome::Reply {
                    slid: target.lid,
                    len: MAD_LEN,
                },
            },
            &mad,
            now,
        );
    }
    while engine.poll_event().is_some() {}
}

/// Returns the longest line of a port with these groups and capabilities, without its line feed.
fn longest_port(groups: &[Group], capabilities: Capabilities, fec_mode: u64) -> String {
    let (guid, lid, port) = (Guid(u64::MAX), Lid(49151), PortNum(254));
    let plan = DevicePlan {
        guid,
        lid,
        kind: NodeKind::Switch,
        ports: vec![port],
    };
    let mut engine = Engine::new(
        &[plan],
        Config {
            groups: groups.into(),
            ..Config::default()
        },
        1,
    );
    let (now, never) = (Instant::ZERO, Instant::from_nanos(u64::MAX));
    engine.start_discovery(now, never);
    answer_all(&mut engine, capabilities, fec_mode, now);
    engine.start_slot(now, never, never);
    answer_all(&mut engine, capabilities, fec_mode, now);
    let mut sample = engine.sample(0);
    assert_eq!((sample.status, sample.verified), (Status::Ok, true));
    // No real port has all of these at once.
    (sample.status, sample.verified, sample.mads, sample.rtt) =
        (Status::WrongDevice, false, u32::MAX, Duration::MAX);
    (sample.mad_status, sample.errno) = (Some(MadStatus(u16::MAX)), Some(i32::MIN));
    let columns = Columns::new(groups);
    let mut reading = Reading::new(&columns);
    reading.take(&columns, u64::MAX, &sample);
    let gbps = Some(4_799.123_457);
    reading.rates = Rates {
        interval: Some(Duration::MAX),
        xmit_gbps: gbps,
        rcv_gbps: gbps,
        wait_ticks: Some(1.0),
        wait_interval: Some(Duration::MAX),
    };
    let (link, link_source) = (LinkRate::new("12x", "FDR10"), LinkSource::Live);
    let identity = PortIdentity {
        guid,
        port,
        lid,
        node: name(),
        kind: NodeKind::Switch,
        hops: Some(u16::MAX),
        peer: Some((guid, port, name())),
        link,
        link_source,
        mtu: Some(4096),
        vls: Some(15),
        limits: Some(PortLimits {
            mtu_cap: Some(4096),
            vl_cap: Some(15),
            vl_high_limit: u8::MAX,
            vl_stall_count: 7,
            hoq_life: 31,
            key_violations: [u16::MAX; 3],
        }),
    };
    let sampler = name();
    let record = PortRecord {
        ts: u64::MAX,
        slot: u64::MAX,
        sampler: &sampler,
        is_secondary: true,
        identity: &identity,
        sample: &sample,
        reading: &reading,
        columns: &columns,
    };
    text(&record)
}

/// Returns the line of a record without its line feed.
fn text(record: &impl serde::Serialize) -> String {
    let mut line = Vec::new();
    ibnet_record::write(record, &mut line);
    assert_eq!(line.pop(), Some(b'\n'));
    String::from_utf8(line).unwrap()
}

#[test]
fn longest_port_lines_fit_and_have_every_documented_counter() {
    let all = |mask2| Capabilities {
        mask: u16::MAX,
        mask2,
        option_mask: None,
    };
    let narrow = Capabilities {
        mask: 1 << 12 | 1 << 15,
        mask2: 0,
        option_mask: None,
    };
    let mut seen = BTreeSet::new();
    let mut saturated = BTreeSet::new();
    for capabilities in [all(u32::MAX >> 5), all(0), narrow] {
        for (groups, most) in [(&Group::DEFAULT[..], SHORT), (&Group::ALL, LONG)] {
            for fec_mode in [0, 2] {
                let line = longest_port(groups, capabilities, fec_mode);
                let (record, counters) = check(&line, most);
                let Line::Port(port) = record else {
                    panic!("{line}")
                };
                assert!(
                    port.mad_status.is_some() && port.errno.is_some() && !port.saturated.is_empty(),
                    "{line}"
                );
                seen.extend(counters);
                saturated.extend(port.saturated);
            }
        }
    }
    assert_eq!(
        seen.iter().map(String::as_str).collect::<BTreeSet<_>>(),
        counters()
    );
    // Exactly the counters with a value in the last column: those of fewer than 64 bits.
    let can_be_full = Group::ALL
        .into_iter()
        .flat_map(|group| rows(group.as_str()))
        .filter(|row| row[5] != "-")
        .map(|row| row[0].trim_matches('`'));
    assert_eq!(
        saturated
            .iter()
            .map(String::as_str)
            .collect::<BTreeSet<_>>(),
        can_be_full.collect()
    );
}

#[test]
fn longest_lines_of_the_physical_layer_fit_and_have_every_documented_field() {
    for kind in PhysicalKind::ALL {
        let mut image = Image::default();
        for block in 0..2 {
            image.take(block, &[0xff; MAD_LEN]);
        }
        let (sampler, node) = (name(), name());
        // The speed of each fan is in the list.
        let pages = kind.pages().iter().filter(|page| **page != Page::FanSpeed);
        let images = || pages.clone().map(|page| (*page, &image));
        let mut values = physical_record::values(images());
        if kind == PhysicalKind::Sensors {
            let mut items = Items::default();
            for number in 0..MAX_ITEMS as u8 {
                for is_fan in [false, true] {
                    items.push(Item {
                        is_fan,
                        number,
                        // 4,095 degrees.
                        octets: [0x7f; register::HEAD],
                    });
                }
            }
            values.0.extend(physical_record::listed(images(), &items));
        }
        let record = PhysicalRecord {
            head: PhysicalHead {
                kind: kind.as_str(),
                ts: u64::MAX,
                slot: u64::MAX,
                sampler: sampler.as_str(),
                guid: Guid(u64::MAX),
                port: kind.is_of_port().then_some(PortNum(254)),
                lid: Lid(49151),
                node: &node,
                dt_ns: Some(u64::MAX),
            },
            values,
        };
        let line = text(&record);
        check(&line, SHORT);
        let line: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        for (name, _) in fields(kind.as_str()) {
            assert!(line.contains_key(name), "{kind} has no {name}");
        }
    }
}

#[test]
fn longest_lines_of_routes_fit_and_have_every_documented_field() {
    let (sampler, node) = (name(), name());
    let line = text(&RoutesRecord {
        ts: u64::MAX,
        slot: u64::MAX,
        sampler: sampler.as_str(),
        guid: Guid(u64::MAX),
        lid: Lid(49151),
        node: &node,
        table: RoutesTable::SlToVl.as_str(),
        top: Some(u16::MAX),
        first_lid: Some(u16::MAX),
        ports: Some(vec![255; 64]),
        port: Some(PortNum(254)),
        in_ports: Some((0..=255).collect()),
        vls: Some(vec![15; 16]),
        cap: Some(u16::MAX),
        round_ns: Some(u64::MAX),
        changed: Some(u32::MAX),
        ar_enabled: Some(1),
        ar_group_top: Some(0xfff),
        ar_sl_mask: Some(u16::MAX),
    });
    check(&line, SHORT);
    let line: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
    for (name, _) in fields("routes") {
        assert!(line.contains_key(name), "no {name}");
    }
    let tables: BTreeSet<_> = RoutesTable::ALL.map(RoutesTable::as_str).into();
    let row = rows("routes").into_iter().find(|row| row[0] == "`table`");
    let named: BTreeSet<_> = row
        .unwrap()
        .last()
        .unwrap()
        .split('`')
        .skip(1)
        .step_by(2)
        .collect();
    assert_eq!(named, tables);
}

#[test]
fn longest_event_and_histogram_lines_fit() {
    for (groups, most) in [(&Group::DEFAULT[..], SHORT), (&Group::ALL, LONG)] {
        // A reset of all counters at once.
        let names: BTreeSet<_> = groups
            .iter()
            .flat_map(|group| group.fields())
            .map(|field| field.json)
            .collect();
        let detail = names.into_iter().collect::<Vec<_>>().join(" ");
        let (guid, port, lid) = (Some(Guid(u64::MAX)), Some(PortNum(254)), Some(Lid(49151)));
        let (sampler, ca, ca_port) = (name(), name(), PortNum(254));
        let (ts, slot) = (u64::MAX, u64::MAX);
        check(
            &text(&EventRecord {
                ts,
                slot,
                sampler: sampler.as_str(),
                ca: &ca,
                ca_port,
                role: "secondary",
                event: "reset",
                guid,
                port,
                lid,
                detail: &detail,
            }),
            most,
        );
    }
    // Every bucket of the histogram has a different count, which no real minute has.
    let mut histogram = stats::durations();
    let mut random = fastrand::Rng::with_seed(1);
    let values: Vec<u64> = histogram
        .iter_all()
        .map(|value| value.value_iterated_to())
        .collect();
    values
        .iter()
        .for_each(|value| histogram.saturating_record_n(*value, random.u32(1..=20_000)));
    let v2 = stats::encoded(&histogram).expect("the histogram can be encoded");
    let (kind, device_kind, count, sampler) = ("rtt", Some("switch"), u64::MAX, name());
    let (ca, ca_port) = (name(), PortNum(254));
    let (ts, slot, guid, lid, mean_ns) = (
        u64::MAX,
        u64::MAX,
        Some(Guid(u64::MAX)),
        Some(Lid(49151)),
        u64::MAX,
    );
    let hops = Some(u16::MAX);
    let line = text(&HistogramRecord {
        ts,
        slot,
        sampler: sampler.as_str(),
        ca: &ca,
        ca_port,
        role: "secondary",
        kind,
        device_kind,
        guid,
        lid,
        hops,
        system_guid: guid,
        vendor_id: Some(0xff_ffff),
        device_id: Some(u16::MAX),
        clock_ns: Some(u64::MAX),
        mean_ns: Some(mean_ns),
        min_ns: Some(mean_ns),
        count,
        v2: &v2,
    });
    check(&line, LONG);
}

#[test]
fn documented_words_are_those_of_the_code() {
    assert_eq!(names("Status"), Status::ALL.map(Status::as_str).into());
    let subject = |of| match of {
        Of::Sampler => "sampler",
        Of::Device => "device",
        Of::Port => "port",
    };
    let documented: BTreeMap<_, _> = rows("Events")
        .into_iter()
        .map(|row| (row[0].trim_matches('`'), row[1]))
        .collect();
    assert_eq!(
        documented,
        EventName::ALL
            .map(|event| (event.as_str(), subject(event.of())))
            .into()
    );
    for record in ["start", "port", "sweep", "event", "histogram"] {
        assert!(
            DOCUMENT.contains(&format!("| [`{record}`](#{record}) |")),
            "{record} is not in the first table"
        );
    }
}

#[test]
fn documented_link_rates_and_ticks_are_those_of_the_code() {
    let rates = rows("Link rates");
    assert_eq!(rates.len(), 9);
    for row in rates {
        let lane = LinkRate::new("1x", row[0])
            .data_gbps()
            .unwrap_or_else(|| panic!("{row:?}"));
        assert!(
            (lane - row[1].parse::<f64>().unwrap()).abs() < 1e-6,
            "{row:?}: {lane}"
        );
    }
    // The section has two tables. This is the one with five columns, without the column names.
    let families: Vec<_> = rows("Derived values")
        .into_iter()
        .filter(|row| row.len() == 5)
        .skip(1)
        .collect();
    let is_in = |cell: &str, id: u32| {
        cell.starts_with("any")
            || cell
                .split(", ")
                .any(|id_text| u32::from_str_radix(id_text.trim_start_matches("0x"), 16) == Ok(id))
    };
    for (vendor_id, device_id) in [0x2c9, 0x258b, 0x8f1, 0x66a]
        .into_iter()
        .flat_map(|vendor| (0..=u16::MAX).map(move |id| (vendor, id)))
    {
        let row = families
            .iter()
            .find(|row| is_in(row[1], vendor_id) && is_in(row[2], device_id.into()))
            .unwrap();
        let of = match row[0] {
            "Tick + 1" => Some(TickOf::Port),
            "(Tick + 1) x lanes" => Some(TickOf::Lane),
            _ => None,
        };
        let info = NodeInfo {
            kind: Some(NodeKind::Switch),
            vendor_id,
            device_id,
            ..NodeInfo::default()
        };
        assert_eq!(
            TickOf::of(&info),
            of,
            "{vendor_id:#x} {device_id:#x}: {row:?}"
        );
    }
}
