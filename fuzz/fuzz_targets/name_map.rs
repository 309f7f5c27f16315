#![no_main]
//! Fuzzes node name maps: any bytes are parsed or refused. Each line is empty, a name or a remark,
//! and devices and peers get the same names.

use ibnet_record::types::Printable;
use ibnet::topology::name_map::NameMap;
use ibnet::topology::net_file;
use ibnet_fuzz::assert_printable;
use libfuzzer_sys::fuzz_target;

const NET: &[u8] = include_bytes!("../../tests/data/fabrics/ibtopotool-2.topo");

fuzz_target!(|bytes: &[u8]| {
    let map = match NameMap::parse(bytes, "names") {
        Ok(map) => map,
        Err(error) => return assert_printable(&Printable(&error.to_string()).to_string()),
    };
    let lines = bytes.split(|octet| *octet == b'\n').count();
    assert!(map.len() <= lines && map.remarks().iter().all(|(line, _)| *line as usize <= lines));
    for (_, found) in map.remarks() {
        assert_printable(&Printable(found).to_string());
    }
    let mut nets = [net_file::parse(NET, "net").expect("a valid file")];
    map.apply(&mut nets);
    let fabric = &nets[0].fabric;
    for device in fabric.devices() {
        assert!(device.name.len() <= 256);
        for (_, peer) in device.linked() {
            let other = fabric.device(fabric.find(peer.guid, peer.port).expect("both ends are in the file"));
            assert_eq!(peer.name, other.name, "one name for one device");
        }
    }
});
