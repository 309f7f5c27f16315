//! Every character of Unicode, and octets that are not UTF-8, in each kind of output.
//!
//! The tests of the metrics, of the pictures, and of CSV are beside their functions.

use ibnet::assignments::{Assignments, Header, Sampler};
use ibnet::topology::ports_report;
use ibnet_record::text;
use ibnet_record::types::Printable;
use serde::Serialize;

/// Returns all characters of Unicode, in texts of 256 characters.
fn all_characters() -> Vec<String> {
    let characters: Vec<char> = ('\0'..=char::MAX).collect();
    assert_eq!(characters.len(), 0x11_0000 - 0x800);
    characters.chunks(256).map(String::from_iter).collect()
}

/// Returns whether a terminal interprets a character or shows nothing: control characters, line
/// separators, controls of the direction (Unicode UAX #9), and characters without a width.
fn is_hidden(c: char) -> bool {
    let ranges = [
        (0x00, 0x1f),
        (0x7f, 0x9f),
        (0xad, 0xad),
        (0x61c, 0x61c),
        (0x180e, 0x180e),
        (0x200b, 0x200f),
        (0x2028, 0x202e),
        (0x2060, 0x206f),
        (0xfeff, 0xfeff),
        (0xe0000, 0xe007f),
    ];
    ranges
        .iter()
        .any(|(first, last)| (*first..=*last).contains(&u32::from(c)))
}

#[test]
fn terminal_gets_no_hidden_character() {
    for text in all_characters() {
        let shown = Printable(&text).to_string();
        assert!(!shown.contains(is_hidden), "{shown}");
        // The visible characters stay in their order.
        let (mut rest, mut kept) = (shown.as_str(), 0);
        for c in text.chars() {
            let escaped = c.escape_unicode().to_string();
            rest = rest
                .strip_prefix(c)
                .inspect(|_| kept += 1)
                .or_else(|| rest.strip_prefix(&*escaped))
                .unwrap();
        }
        assert!(rest.is_empty() && kept + 256 >= text.chars().count());
    }
}

#[test]
fn json_line_has_every_character_and_none_is_hidden() {
    for text in all_characters() {
        let mut line = Vec::new();
        text.serialize(&mut text::compact(&mut line)).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(!line.contains(is_hidden), "{line}");
        assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
    }
}

#[test]
fn plan_has_every_character_and_none_is_hidden() {
    let sampler = |host| Sampler {
        host,
        subnet: None,
        ca: None,
        ca_port: None,
        role: None,
        offset: None,
        port_count: 0,
        devices: Vec::new(),
    };
    let plan = Assignments {
        version: 1,
        cap: 1,
        at: None,
        samplers: all_characters().into_iter().map(sampler).collect(),
    };
    let everything = all_characters().concat();
    let header = Header {
        sources: vec![(everything.clone(), String::new())],
        command: everything,
    };
    let toml = plan.to_toml(&header);
    assert!(!toml.contains(|c| c != '\n' && is_hidden(c)));
    assert_eq!(Assignments::parse(&toml, "plan").unwrap(), plan);
}

/// Returns every sequence of two octets, and every sequence of three and four octets of these: the
/// first and the last octet of each class of UTF-8 (Unicode, table 3-7).
fn sequences() -> Vec<Vec<u8>> {
    let octets: Vec<u8> = (0..=u8::MAX)
        .filter(|octet| *octet != b'\n' && *octet != b'\'')
        .collect();
    let edges = [
        b'a', 0x80, 0x8f, 0x90, 0x9f, 0xa0, 0xbf, 0xc0, 0xc2, 0xdf, 0xe0, 0xed, 0xef, 0xf0, 0xf4,
        0xf5, 0xff,
    ];
    let longer = |shorter: Vec<Vec<u8>>, by: &[u8]| -> Vec<Vec<u8>> {
        shorter
            .iter()
            .flat_map(|text| by.iter().map(|octet| [text, &[*octet][..]].concat()))
            .collect()
    };
    let three = (0..3).fold(vec![Vec::new()], |texts, _| longer(texts, &edges));
    let four = longer(three.clone(), &edges);
    [
        longer(longer(vec![Vec::new()], &octets), &octets),
        three,
        four,
    ]
    .concat()
}

#[test]
fn octets_that_are_not_utf_8_become_replacement_characters_of_their_own_name_only() {
    // Each device of a file needs its own LID.
    for sequences in sequences().chunks(40_000) {
        let mut file = Vec::new();
        for (lid, octets) in (1u16..).zip(sequences) {
            // Letters around the name: blanks at its ends would be removed.
            file.extend(format!("SW {lid:5}  1 {lid:#018x} 4x SDR   'x").into_bytes());
            file.extend(octets.iter().chain(b"y'\n"));
        }
        let net = ports_report::parse(&file, "net.p").unwrap();
        assert_eq!(net.fabric.devices().len(), sequences.len());
        for (device, octets) in net.fabric.devices().iter().zip(sequences) {
            assert_eq!(
                device.name,
                format!("x{}y", String::from_utf8_lossy(octets))
            );
        }
    }
}
