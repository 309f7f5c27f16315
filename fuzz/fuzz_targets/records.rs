#![no_main]
//! Fuzzes the readers of records: the strict one and the tolerant one.
//!
//! A record has some twenty fields, which no fuzzer finds by chance. So an input is either a text,
//! or a list of changes to valid records.

use ibnet_record::reader::{Head, Record};
use ibnet_record::strict;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

fuzz_target!(|bytes: &[u8]| {
    read_strictly(&String::from_utf8_lossy(bytes));
    read_tolerantly(bytes);
    if let Ok(text) = edited(&mut Unstructured::new(bytes)) {
        read_strictly(&text);
    }
});

/// Valid records: one of each type, and a second port record with more fields.
const RECORDS: [&str; 6] = [
    r#"{"type":"start","ts":1,"slot":1,"sampler":"a","schema":1,"version":"0","boot_id":"","pid":1,"ca":"sim","ca_port":1,"role":"primary","interval_ns":500000000,"groups":["base"],"ports":7,"mads_per_slot":28,"assignments_sha256":null,"clock_ns":30,"file_seq":0}"#,
    r#"{"type":"port","ts":1,"slot":1,"sampler":"a","role":"secondary","guid":"0x0000000000000001","port":1,"lid":1,"node":"leaf0","kind":"switch","hops":1,"peer_guid":"0x0000000000000002","peer_port":1,"peer":"node1","link":"4xEDR","link_source":"file","status":"ok","rtt_ns":1,"rtt_min_ns":1,"mads":2,"identity":"ok","port_xmit_data_bytes":4,"saturated":["port_xmit_data_bytes"],"dt_ns":1000000000,"xmit_gbps":1.5,"rcv_gbps":0.0,"xmit_utilization":0.1,"rcv_utilization":0.0,"xmit_blocked":0.5,"xmit_blocked_dt_ns":7}"#,
    r#"{"type":"port","ts":1,"slot":2,"sampler":"a","guid":"0x0000000000000001","port":1,"lid":1,"node":"leaf0","kind":"hca","hops":null,"peer_guid":null,"peer_port":null,"peer":null,"link":"??x???","link_source":"live","status":"timeout","rtt_ns":0,"rtt_min_ns":null,"mads":1,"mad_status":28,"errno":22,"identity":"unverified","port_xmit_data_sl_bytes":[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15],"dt_ns":null,"xmit_gbps":null,"rcv_gbps":null,"xmit_utilization":null,"rcv_utilization":null,"xmit_blocked":null}"#,
    r#"{"type":"sweep","ts":1,"slot":1,"sampler":"a","ca":"sim","ca_port":1,"role":"primary","duration_ns":1,"decode_ns":0,"ports":7,"ok":7,"late":0,"timeout":0,"unreachable":0,"skipped":0,"down":0,"errors":0,"mads_sent":28,"mads_late":0,"mads_rejected":0,"mads_duplicate":0,"mads_foreign":0,"mads_bad_length":0,"mads_bad_class":0,"mads_bad_attribute":0,"mads_bad_port":0,"mads_refused":0,"load_bytes":0,"slots_missed":0,"lines_lost":0,"rtt_p50_ns":null,"rtt_p99_ns":null,"rtt_max_ns":null}"#,
    r#"{"type":"histogram","ts":1,"slot":1,"sampler":"a","ca":"sim","ca_port":1,"role":"primary","kind":"rtt","device_kind":"hca","guid":null,"lid":null,"hops":null,"clock_ns":30,"mean_ns":1,"count":1,"v2":""}"#,
    r#"{"type":"event","ts":1,"slot":1,"sampler":"a","ca":"sim","ca_port":1,"role":"primary","event":"reset","guid":null,"port":1,"lid":1,"detail":"x"}"#,
];

/// Returns some records in which fields are removed, added or changed.
fn edited(input: &mut Unstructured<'_>) -> Result<String> {
    let mut text = String::new();
    for _ in 0..input.int_in_range(1..=6)? {
        let Ok(Value::Object(mut fields)) = serde_json::from_str(input.choose::<&str>(&RECORDS)?) else { unreachable!("the records are objects") };
        for _ in 0..input.int_in_range(0..=3)? {
            let name = fields.keys().nth(input.choose_index(fields.len())?).cloned().unwrap_or_default();
            match input.int_in_range(0..=9)? {
                0 => drop(fields.remove(&name)),
                1 => drop(fields.insert(input.arbitrary()?, Value::Null)),
                _ => drop(fields.insert(name, value(input)?)),
            }
        }
        text += &Value::Object(fields).to_string();
        text.push('\n');
    }
    Ok(text)
}

fn value(input: &mut Unstructured<'_>) -> Result<Value> {
    Ok(match input.int_in_range(0..=7)? {
        0 => Value::Null,
        1 => input.arbitrary::<u64>()?.into(),
        2 => u64::MAX.into(),
        3 => input.arbitrary::<i32>()?.into(),
        4 => input.arbitrary::<f64>()?.into(),
        5 => input.arbitrary::<Vec<u64>>()?.into(),
        6 => "\u{1b}[2J\u{9b}\u{202e}\r\"\\".into(),
        _ => input.arbitrary::<String>()?.into(),
    })
}

/// Reads every line as the viewer does.
fn read_tolerantly(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        if let Ok(Head { kind: Some(kind), .. }) = Head::of(line) {
            let _ = Record::parse(line, kind);
            let _ = Record::parse_without_counters(line);
        }
    }
}

/// Reads every line with the strict reader, then as the viewer does.
fn read_strictly(text: &str) {
    for line in text.lines() {
        if let Err(error) = strict::parse(line) {
            drop(error.to_string());
        }
    }
    read_tolerantly(text.as_bytes());
}
