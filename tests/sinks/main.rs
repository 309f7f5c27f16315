//! Outputs of the real `ibnet-sweep` on a simulated fabric: several outputs at the same time, and
//! each output when it is slow, full, moved, killed or unreachable.
//!
//! In every test, one file receives all records. The test compares the records of the other outputs
//! with this file, line by line.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod faults;
mod readers;
mod sampler;
#[cfg(feature = "nats")]
mod with_nats;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read;
use std::process::Stdio;

use ibnet_record::strict::Line;
use sampler::{Received, Sampler, record, wait_for};

#[test]
fn every_output_receives_the_same_records() {
    let sampler = Sampler::new(
        "interval = \"50ms\"
        [[output]]
        type = \"stdout\"
        [[output]]
        type = \"file\"
        path = \"lines\"
        [[output]]
        type = \"unix\"
        path = \"sock\"
        [[output]]
        type = \"tcp\"
        listen = \"PORT\"",
    );
    let running = sampler.start();
    let readers: [Box<dyn Read + Send>; 2] =
        [Box::new(sampler.unix("sock")), Box::new(sampler.tcp())];
    let texts = readers
        .map(|reader| std::thread::spawn(move || sampler::read_lines(reader, "\"sweep\"", 4)));
    let [unix, tcp] = texts.map(|reader| Received::of(&reader.join().unwrap()));
    let run = running.stop("TERM");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (stdout, file) = (
        Received::of(&run.stdout),
        Received::of(&sampler.read("lines")),
    );
    assert!(
        file.lines.len() > 4 * 20 && stdout.lines == file.lines,
        "{} lines and {}",
        stdout.lines.len(),
        file.lines.len()
    );
    for reader in [unix, tcp] {
        assert!(reader.slots.len() >= 4 && reader.starts.len() == 1 && reader.lost == 0);
        assert!(reader.lines.is_subset(&file.lines));
    }
    assert!(
        !sampler.path("sock").exists(),
        "the socket is removed at the end"
    );
}

/// Each file begins with `start` records; together the rotated and compressed files have all
/// records.
#[test]
fn rotation_by_size_drops_no_record() {
    let sampler = Sampler::new(
        "interval = \"10ms\"
        [[output]]
        type = \"file\"
        path = \"all\"
        [[output]]
        type = \"stdout\"
        [[output]]
        type = \"file\"
        path = \"lines.jsonl\"
        rotate_mib = 1
        compress = true",
    );
    let compressed = |sampler: &Sampler| {
        sampler
            .files()
            .into_iter()
            .filter(|name| name.ends_with(".jsonl.zst"))
            .count()
    };
    // The thread that compresses has the least priority. So on a busy machine it is slow, and a
    // sampler that goes on would write more and more. This one ends after some slots, but not
    // before the test reads its standard output.
    let mut child = sampler
        .command()
        .args(["--sweeps", "250"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for("two compressed files", || compressed(&sampler) >= 2);
    let stdout = std::io::read_to_string(child.stdout.take().unwrap()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let mut texts = BTreeMap::new();
    for name in sampler
        .files()
        .into_iter()
        .filter(|name| name.starts_with("lines"))
    {
        let bytes = fs::read(sampler.path(&name)).unwrap();
        let text = match name.rsplit('.').next() {
            Some("zst") => {
                String::from_utf8(zstd::stream::decode_all(&bytes[..]).unwrap()).unwrap()
            }
            Some("jsonl") => String::from_utf8(bytes).unwrap(),
            // A file that was being compressed at the end; the next start compresses it again.
            _ => {
                assert!(name.ends_with(".jsonl.zst.part"), "{name}");
                continue;
            }
        };
        // At the end a file can exist twice: compressed, and not removed yet.
        let other = texts.insert(name.trim_end_matches(".zst").to_owned(), text.clone());
        assert!(
            other.is_none_or(|other| other == text),
            "{name} differs from the file that it was made of"
        );
    }
    let mut lines = BTreeSet::new();
    let mut seqs = BTreeSet::new();
    for text in texts.values() {
        assert!(text.len() <= 1 << 20 && text.ends_with('\n'));
        let head = text.lines().next().unwrap();
        let Line::Start(start) = record(head) else {
            panic!("{head}")
        };
        assert!(seqs.insert(start.file_seq), "no two files have one number");
        lines.extend(Received::of(text).lines);
    }
    assert_eq!(
        seqs.into_iter().collect::<Vec<_>>(),
        (0..u32::try_from(texts.len()).unwrap()).collect::<Vec<_>>()
    );
    let all = Received::of(&sampler.read("all"));
    assert!(
        lines == all.lines && Received::of(&stdout).lines == all.lines && all.slots.len() == 250
    );
}
