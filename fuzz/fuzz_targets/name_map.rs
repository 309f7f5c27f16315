#![no_main]
//! Arbitrary bytes as a node-name map: read or refused, each line is nothing, a name or a remark, and the names go to devices and peers alike.

use ibnet::topology::name_map::NameMap;
use ibnet::topology::net_file;
use ibnet::types::Printable;
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
    let mut nets = [net_file::parse(NET, "net").expect("a good file")];
    map.apply(&mut nets);
    let fabric = &nets[0].fabric;
    for device in fabric.devices() {
        assert!(device.name.len() <= 256);
        for (_, peer) in device.linked() {
            let other = fabric.device(fabric.find(peer.guid, peer.port).expect("both ends are there"));
            assert_eq!(peer.name, other.name, "one name for one device");
        }
    }
});
