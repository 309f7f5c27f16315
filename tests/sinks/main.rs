//! Where the lines of the real `ibnet-sweep` go, on a simulated fabric: what comes out of several outputs at once, and what each of them tells when it is
//! slow, full, moved away, killed or away.
//!
//! In every test a file on a good disk takes all lines; what another output lacks is compared with it, line by line.
#![expect(clippy::unwrap_used, reason = "a test's failure is the message; clippy does not see that this whole file is one")]

mod faults;
#[cfg(feature = "nats")]
mod nats;
mod readers;
mod sampler;

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;

use ibnet::record::strict::Line;

use sampler::{Sampler, Told, record, wait_for};

/// Standard output, a file, and the readers of two sockets get the same lines.
#[test]
fn every_output_gets_the_same_lines() {
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
    let readers: [Box<dyn Read + Send>; 2] = [Box::new(sampler.unix("sock")), Box::new(sampler.tcp())];
    let texts = readers.map(|reader| std::thread::spawn(move || sampler::read_lines(reader, "\"sweep\"", 4)));
    let [unix, tcp] = texts.map(|reader| Told::of(&reader.join().unwrap()));
    let run = running.stop("TERM");
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (stdout, file) = (Told::of(&run.stdout), Told::of(&sampler.read("lines")));
    assert!(file.lines.len() > 4 * 20 && stdout.lines == file.lines, "{} lines and {}", stdout.lines.len(), file.lines.len());
    for reader in [unix, tcp] {
        assert!(reader.slots.len() >= 4 && reader.starts.len() == 1 && reader.lost == 0);
        assert!(reader.lines.is_subset(&file.lines));
    }
    assert!(!sampler.path("sock").exists(), "a socket is removed in the end");
}

/// Files are closed by size while lines come, compressed, and have each its head; together they have all lines.
#[test]
fn files_are_rotated_and_nothing_is_lost_between_them() {
    let sampler = Sampler::new(
        "interval = \"10ms\"
        [[output]]
        type = \"file\"
        path = \"all\"
        [[output]]
        type = \"file\"
        path = \"lines.jsonl\"
        rotate_mib = 1
        compress = true",
    );
    let compressed = |sampler: &Sampler| sampler.files().into_iter().filter(|name| name.ends_with(".jsonl.zst")).collect::<Vec<_>>();
    let running = sampler.start();
    wait_for("two compressed files", || compressed(&sampler).len() >= 2);
    assert_eq!(running.stop("INT").code, 0);
    let mut texts = Vec::new();
    for name in sampler.files().into_iter().filter(|name| name.starts_with("lines")) {
        let bytes = fs::read(sampler.path(&name)).unwrap();
        match name.rsplit('.').next() {
            Some("zst") => texts.push(String::from_utf8(zstd::stream::decode_all(&bytes[..]).unwrap()).unwrap()),
            Some("jsonl") => texts.push(String::from_utf8(bytes).unwrap()),
            // Half of what is compressed again at the next start.
            _ => assert!(name.ends_with(".jsonl.zst.part"), "{name}"),
        }
    }
    let mut lines = BTreeSet::new();
    let mut seqs = BTreeSet::new();
    let mut heads = BTreeSet::new();
    for text in &texts {
        assert!(text.len() <= 1 << 20 && text.ends_with('\n'));
        let head = text.lines().next().unwrap();
        let Line::Start(start) = record(head) else { panic!("{head}") };
        assert!(heads.insert(head.to_owned()), "no two first lines are alike");
        seqs.insert(start.file_seq);
        lines.extend(Told::of(text).lines);
    }
    // In the moment between the compressed file's coming and the other's going it is there twice.
    assert_eq!(seqs.into_iter().collect::<Vec<_>>(), (0..u32::try_from(heads.len()).unwrap()).collect::<Vec<_>>());
    assert!(lines == Told::of(&sampler.read("all")).lines);
}
