//! Imports recordings of LDMS: files of its `store_csv` become `port` records.
//!
//! The columns of a file show its form. Sources: ldms of ovis-hpc, `ldms/src/sampler` and
//! `ldms/src/store`, 2026-08.
//!
//! | sampler | port of a row | counters |
//! |---|---|---|
//! | `ibnet` | columns `lid` and `port`; the host is the name of the device | names of libibmad |
//! | `opa2` | columns `ca_name` and `port` | names of libibmad |
//! | `ibmad` | columns `ca_name` and `port` | names of `/sys/class/infiniband` |
//! | `sysclassib` | in a column name: `ib.port_xmit_data#mlx5_0.1` | as `ibmad` |
//!
//! What the store lacks is null or absent: peers, and widths and speeds of links. Two fields that a
//! record must have are inferred: `guid` makes a GUID from the name of the device, and a device of
//! `ibnet` is a switch if it has a port above 2. Data counters are words of 4 bytes in all forms.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use ibnet_record::attributes::{Field, Group, Unit};
use ibnet_record::port::{PortFields, WriteCounters};
use ibnet_record::types::{Guid, Lid, NodeKind, PortNum};
use ibnet_record::{Identity, LinkSource, Status};
use serde::ser::SerializeMap;

use crate::error::AnalysisError;
use crate::host_metrics::error::HostMetricsError;
use crate::host_metrics::text::{Header, ldms_rows};

/// Name of the sampler in imported records.
const SAMPLER: &str = "ldms";

/// Number of samples from which the time between two samples is found.
const AHEAD: usize = 10_000;

/// Samples are taken at multiples of this time.
const UNIT_NS: u64 = 100_000_000;

/// Max port number of an HCA.
const HCA_PORTS: PortNum = PortNum(2);

/// An imported record.
pub type ImportedPort = PortFields<Cow<'static, str>, ImportedCounters>;

/// Counters by name.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct ImportedCounters(Vec<(&'static str, Vec<u64>)>);

impl WriteCounters for ImportedCounters {
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        for (name, values) in &self.0 {
            match &values[..] {
                [value] => map.serialize_entry(name, value)?,
                values => map.serialize_entry(name, values)?,
            }
        }
        Ok(())
    }
}

/// What was imported.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Imported {
    /// Number of records.
    pub records: usize,
    /// Number of ports.
    pub ports: usize,
    /// Number of samples that were left out, because the port had a sample in the same interval.
    pub left_out: usize,
}

/// Reads a file of `store_csv`, and passes each record to `write`. `interval_ns` is the time
/// between two samples; without it, it is the median of those at the beginning of the file.
///
/// # Errors
/// Returns an error with the line if the file is malformed, or if it has no counter.
pub fn import(
    path: &Path,
    interval_ns: Option<u64>,
    mut write: impl FnMut(&ImportedPort),
) -> Result<Imported, HostMetricsError> {
    let fields = fields();
    let mut importer = Importer {
        interval_ns,
        ahead: Some(Vec::new()),
        switches: BTreeSet::new(),
        ports: BTreeMap::new(),
        done: Imported::default(),
        write: &mut write,
    };
    ldms_rows(path, |header, row| {
        let samples = samples(header, row, &fields)?;
        samples.into_iter().for_each(|one| importer.add(one));
        Ok(())
    })?;
    importer.start();
    let done = importer.done;
    if done.records == 0 {
        let what = format!(
            "no counter of a port in {}",
            crate::path::display_name(path)
        );
        let help = "give files of store_csv with the metrics of ibnet, opa2, ibmad or sysclassib; docs/viewing.md lists their columns".to_owned();
        return Err(AnalysisError::Nothing { what, help }.into());
    }
    Ok(done)
}

/// The field of each column name, as [`plain`] returns it, with the index of its value.
type Fields = BTreeMap<String, (&'static Field, usize)>;

fn fields() -> Fields {
    let all = Group::ALL.into_iter().flat_map(Group::fields);
    let names = |field: &'static Field| {
        (0..usize::from(field.len)).map(move |index| match field.len {
            1 => (plain(field.name), (field, 0)),
            _ => (format!("{}{index}", plain(field.name)), (field, index)),
        })
    };
    all.flat_map(names).collect()
}

/// Returns a name in the form that libibmad and `/sys/class/infiniband` share: `symbolerror` for
/// `SymbolErrorCounter` and `symbol_error`.
fn plain(name: &str) -> String {
    let name = name.strip_prefix("ib.").unwrap_or(name);
    let name = name.replace('_', "").to_lowercase();
    let name = name.replace("packets", "pkts");
    name.trim_end_matches("counter").to_owned()
}

/// The counters of a port at a time.
struct Sample {
    ts: u64,
    node: String,
    kind: Option<NodeKind>,
    port: PortNum,
    lid: Lid,
    counters: Vec<(&'static str, Vec<u64>)>,
}

/// The values of each counter.
type Counters = BTreeMap<&'static str, Vec<Option<u64>>>;

/// Returns the samples of a row: one, or one for each port in the names of the columns.
fn samples(
    header: &Header,
    row: &csv::StringRecord,
    fields: &Fields,
) -> Result<Vec<Sample>, String> {
    let (ts, host) = header.time_and_host(row)?;
    let mut by_device: BTreeMap<Option<&str>, Counters> = BTreeMap::new();
    for (column, text) in header.columns.iter().zip(row) {
        let Some((field, index)) = fields.get(&plain(&column.name)) else {
            continue;
        };
        let Ok(raw) = text.parse::<u64>() else {
            continue;
        };
        let value = match field.unit {
            Some(Unit::Words) => raw.saturating_mul(4),
            _ => raw,
        };
        let counters = by_device.entry(column.device.as_deref()).or_default();
        let values = counters.entry(field.json).or_default();
        values.resize(usize::from(field.len), None);
        values[*index] = Some(value);
    }
    let text = |name: &str| {
        let index = header
            .columns
            .iter()
            .position(|column| column.name == name)?;
        row.get(index).filter(|text| !text.is_empty())
    };
    let port = |text: &str| {
        let number = text.parse().map(PortNum);
        number.map_err(|_| format!("the port `{text}` is not a number from 0 to 255"))
    };
    let sample = |(device, counters): (Option<&str>, Counters)| {
        let (ca, port) = match device {
            Some(device) => {
                let (ca, number) = device.rsplit_once('.').unwrap_or((device, ""));
                (Some(ca), port(number)?)
            }
            None => (text("ca_name"), port(text("port").unwrap_or_default())?),
        };
        // An array of which a part is missing is not a value.
        let whole = counters
            .into_iter()
            .filter_map(|(name, values)| Some((name, values.into_iter().collect::<Option<_>>()?)));
        let node = match (text("node_name"), ca) {
            (Some(name), _) => name.to_owned(),
            (None, Some(ca)) => format!("{host} {ca}"),
            (None, None) => host.to_owned(),
        };
        Ok(Sample {
            ts,
            node,
            kind: ca.map(|_| NodeKind::Hca),
            port,
            lid: Lid(text("lid").and_then(|lid| lid.parse().ok()).unwrap_or(0)),
            counters: whole.collect(),
        })
    };
    by_device.into_iter().map(sample).collect()
}

/// Turns samples into records.
struct Importer<'w> {
    interval_ns: Option<u64>,
    /// The first samples, which show the interval and the switches.
    ahead: Option<Vec<Sample>>,
    switches: BTreeSet<String>,
    ports: BTreeMap<(Guid, PortNum), Last>,
    done: Imported,
    write: &'w mut dyn FnMut(&ImportedPort),
}

/// The last sample of a port.
struct Last {
    ts: u64,
    slot: u64,
    /// Added to times before they are divided by the interval. Then the samples lie in the middle
    /// of slots, and a small delay does not put two of them into the same slot.
    shift_ns: i64,
    /// Sent and received bytes.
    bytes: [Option<u64>; 2],
}

/// Returns a GUID for a device of which only the name is known: the FNV-1a hash of the name, with
/// the bit of locally administered EUI-64 identifiers, which no vendor uses.
fn guid(node: &str) -> Guid {
    let hash = node.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, octet| {
        (hash ^ u64::from(octet)).wrapping_mul(0x0100_0000_01b3)
    });
    Guid(hash & 0x00ff_ffff_ffff_ffff | 0x0200_0000_0000_0000)
}

impl Importer<'_> {
    fn add(&mut self, sample: Sample) {
        match &mut self.ahead {
            Some(ahead) if ahead.len() < AHEAD => ahead.push(sample),
            Some(_) => {
                self.start();
                self.write(sample);
            }
            None => self.write(sample),
        }
    }

    /// Finds the interval and the switches, and writes the samples so far.
    fn start(&mut self) {
        let ahead = self.ahead.take().unwrap_or_default();
        let mut last: BTreeMap<(&str, PortNum), u64> = BTreeMap::new();
        let mut lengths: Vec<u64> = Vec::new();
        for sample in &ahead {
            let before = last.insert((&sample.node, sample.port), sample.ts);
            lengths.extend(before.and_then(|before| sample.ts.checked_sub(before)));
            if sample.port > HCA_PORTS {
                self.switches.insert(sample.node.clone());
            }
        }
        lengths.retain(|length| *length > 0);
        lengths.sort_unstable();
        if let Some(median) = lengths.get(lengths.len() / 2) {
            let interval_ns = ((median + UNIT_NS / 2) / UNIT_NS * UNIT_NS).max(UNIT_NS);
            self.interval_ns.get_or_insert(interval_ns);
        }
        ahead.into_iter().for_each(|sample| self.write(sample));
    }

    fn write(&mut self, sample: Sample) {
        let interval_ns = self.interval_ns.unwrap_or(10 * UNIT_NS);
        let Sample {
            ts,
            node,
            kind,
            port,
            lid,
            counters,
        } = sample;
        let is_switch = port > HCA_PORTS || self.switches.contains(&node);
        let inferred = if is_switch {
            NodeKind::Switch
        } else {
            NodeKind::Hca
        };
        let guid = guid(&node);
        let last = self.ports.get(&(guid, port));
        let middle = || (interval_ns / 2) as i64 - (ts % interval_ns) as i64;
        let shift_ns = last.map_or_else(middle, |last| last.shift_ns);
        let slot = ts.saturating_add_signed(shift_ns) / interval_ns;
        if last.is_some_and(|last| slot <= last.slot) {
            self.done.left_out += 1;
            return;
        }
        let bytes = ["port_xmit_data_bytes", "port_rcv_data_bytes"].map(|name| {
            let own = counters.iter().find(|(own, _)| *own == name);
            own.and_then(|(_, values)| values.first().copied())
        });
        // After a missing sample, no rate describes the interval.
        let before = last.filter(|last| last.slot + 1 == slot);
        let dt_ns = before.map(|before| ts - before.ts);
        let gbps = |index: usize| {
            let grown = bytes[index]?.checked_sub(before?.bytes[index]?)?;
            Some(grown as f64 * 8.0 / dt_ns? as f64)
        };
        let [xmit_gbps, rcv_gbps] = [0, 1].map(gbps);
        let last = Last {
            ts,
            slot,
            shift_ns,
            bytes,
        };
        self.ports.insert((guid, port), last);
        let text = |text: &'static str| Cow::Borrowed(text);
        (self.write)(&PortFields {
            ts,
            slot,
            sampler: text(SAMPLER),
            guid,
            port,
            lid,
            node: Cow::Owned(node),
            kind: kind.or(Some(inferred)),
            link: text("?????"),
            link_source: text(LinkSource::Imported.as_str()),
            status: text(Status::Ok.as_str()),
            identity: text(Identity::Unverified.as_str()),
            dt_ns: dt_ns.filter(|_| xmit_gbps.or(rcv_gbps).is_some()),
            xmit_gbps,
            rcv_gbps,
            ..PortFields::without_values(ImportedCounters(counters))
        });
        self.done.records += 1;
        self.done.ports = self.ports.len();
    }
}

#[cfg(test)]
mod tests {
    use ibnet_record::strict;

    use super::*;
    use crate::fixtures::fold;
    use crate::ports::Ports;

    /// Imports a text, which was written by hand in the form of the store.
    fn lines(text: &str) -> Result<(Vec<String>, Imported), String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store.csv");
        std::fs::write(&path, text).unwrap();
        let mut lines = Vec::new();
        let done = import(&path, None, |record| {
            ibnet_record::write(record, &mut lines);
        });
        let lines = String::from_utf8(lines).unwrap();
        let done = done.map_err(|error| error.to_string())?;
        Ok((lines.lines().map(str::to_owned).collect(), done))
    }

    fn values(line: &str) -> serde_json::Value {
        let value: serde_json::Value = serde_json::from_str(line).unwrap();
        let strict = strict::parse(line);
        assert!(strict.is_ok(), "{strict:?}: {line}");
        value
    }

    #[test]
    fn rows_of_ibnet_become_records_with_counters_and_rates() {
        let text = "#Time,Time_usec,ProducerName,remote,lid,port,node_name,PortXmitData,PortRcvData,PortXmitWait,SymbolErrorCounter,XmtDataSL0\n\
            1600000000.002,2000,leaf1,4.7,4,7,leaf1,1000,2000,5,1,9\n\
            1600000005.001,1000,leaf1,4.7,4,7,leaf1,1250001000,2000,15,1,9\n\
            1600000009.999,9990,leaf1,4.7,4,7,leaf1,1250001000,1000,20,1,9\n\
            1600000020.001,1000,leaf1,4.7,4,7,leaf1,2500001000,1000,20,1,9\n";
        let (lines, done) = lines(text).unwrap();
        assert_eq!((done.records, done.ports, done.left_out), (4, 1, 0));
        let records: Vec<_> = lines.iter().map(|line| values(line)).collect();
        let second = &records[1];
        for (field, value) in [
            ("node", "leaf1"),
            ("sampler", "ldms"),
            ("link_source", "imported"),
        ] {
            assert_eq!(second[field], value);
        }
        assert_eq!(
            (&second["lid"], &second["port"], &second["kind"]),
            (&4.into(), &7.into(), &"switch".into())
        );
        assert_eq!(second["port_xmit_data_bytes"], 5_000_004_000_u64);
        assert_eq!(second["symbol_error_counter"], 1);
        assert_eq!(second["slot"], 320_000_001);
        // One value of sixteen is not a value of the array.
        assert!(second.get("port_xmit_data_sl_bytes").is_none());
        let rates: Vec<_> = records
            .iter()
            .map(|record| {
                let gbps = |field: &str| record[field].as_f64().map(f64::round);
                (gbps("xmit_gbps"), gbps("rcv_gbps"))
            })
            .collect();
        // The counter of received data was cleared, and then a sample is missing.
        assert_eq!(
            rates,
            [
                (None, None),
                (Some(8.0), Some(0.0)),
                (Some(0.0), None),
                (None, None)
            ]
        );
        let ports = fold(Ports::default(), &lines).finish();
        let port = ports.values().next().unwrap();
        assert_eq!(port.all.xmit.peak().map(f64::round), Some(8.0));
    }

    #[test]
    fn columns_of_sysclassib_name_the_ports_of_a_host() {
        let text = "#Time, Time_usec, CompId, ib.port_xmit_data#mlx5_0.1, ib.port_xmit_data.rate#mlx5_0.1, ib.port_xmit_packets#mlx5_0.1, ib.port_xmit_wait#mlx5_1.1\n\
            1400000000.5, 500000, 17, 100, 3.5, 7, 9\n";
        let (lines, _) = lines(text).unwrap();
        let records: Vec<_> = lines.iter().map(|line| values(line)).collect();
        assert_eq!(
            (&records[0]["node"], &records[1]["node"]),
            (&"17 mlx5_0".into(), &"17 mlx5_1".into())
        );
        assert_eq!(
            (
                &records[0]["port_xmit_data_bytes"],
                &records[0]["port_xmit_pkts"],
                &records[1]["port_xmit_wait_ticks"]
            ),
            (&400.into(), &7.into(), &9.into())
        );
        assert_ne!(records[0]["guid"], records[1]["guid"]);
        assert_eq!(records[0]["kind"], "hca");
    }

    #[test]
    fn opa2_has_its_port_in_columns_and_other_files_are_refused() {
        let header = "#Time,Time_usec,ProducerName,component_id,job_id,app_id,ca_name,port,PortXmitData,PortMulticastRcvPkts";
        let (read, _) =
            lines(&format!("{header}\n1600000000.1,1,n1,0,0,0,hfi1_0,1,8,2\n")).unwrap();
        let record = values(&read[0]);
        assert_eq!(
            (&record["node"], &record["port_multicast_rcv_pkts"]),
            (&"n1 hfi1_0".into(), &2.into())
        );
        let error = lines("#Time,Time_usec,ProducerName,MemFree\n1600000000,1,n1,7\n").unwrap_err();
        assert!(error.contains("no counter of a port in"), "{error}");
        let error = lines(&format!(
            "{header}\n1600000000,1,n1,0,0,0,hfi1_0,x,8,2\n1,1,1,1,1,1,1,1,1,1\n"
        ));
        let error = error.unwrap_err();
        assert!(
            error.contains("store.csv:2: the port `x` is not a number"),
            "{error}"
        );
    }
}
