//! Tests of the spool.

use std::fs;

use super::*;

/// A message of a slot with two records.
fn message(number: u64) -> Pending {
    let text = format!("{number} {}\n{number}\n", noise(number));
    Pending {
        subject: "ibnet.f.s.batch".to_owned(),
        id: format!("id-{number}"),
        text: text.into_bytes().into(),
        lines: 2,
    }
}

/// About 2 kB that zstd cannot make smaller than 1 kB.
fn noise(number: u64) -> String {
    let mut random = fastrand::Rng::with_seed(number);
    (0..2000).map(|_| random.alphanumeric()).collect()
}

fn waiting(numbers: impl Iterator<Item = u64>) -> Waiting {
    let mut waiting = Waiting::default();
    waiting.extend(numbers.map(message));
    waiting
}

fn options(folder: &Path, most: u64) -> SpoolOptions {
    SpoolOptions {
        folder: folder.join("spool"),
        most,
    }
}

fn open_spool(folder: &Path, most: u64) -> Spool {
    Spool::open(&options(folder, most)).expect("opened")
}

/// Appends a slot and returns the number of dropped records.
fn append(spool: &mut Spool, number: u64) -> u64 {
    let mut slot = waiting(std::iter::once(number));
    let (dropped, result) = spool.append(&mut slot);
    result.expect("written");
    assert!(slot.is_empty() && slot.lines() == 0);
    dropped
}

/// Reads everything. Returns the messages, and the number of lost records.
fn all(spool: &mut Spool) -> (Vec<Pending>, u64) {
    let (mut messages, mut lost) = spool.read(1);
    loop {
        let (more, more_lost) = spool.read(10_000);
        lost += more_lost;
        if more.is_empty() {
            return (messages, lost);
        }
        messages.extend(more);
    }
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(folder.join("spool"))
        .expect("a folder")
        .map(|entry| entry.expect("an entry").path())
        .collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "zst"));
    paths.sort();
    paths
}

#[test]
fn messages_of_a_killed_process_come_first_and_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = open_spool(folder.path(), 1 << 20);
    (0..200).for_each(|number| assert_eq!(append(&mut spool, number), 0));
    // A killed process runs no destructor. Dropping the spool writes nothing.
    drop(spool);
    assert!(segments(folder.path()).len() > 1);
    let mut spool = open_spool(folder.path(), 1 << 20);
    assert_eq!(spool.lines(), 400);
    append(&mut spool, 200);
    let (messages, lost) = all(&mut spool);
    assert!(messages == (0..=200).map(message).collect::<Vec<_>>() && lost == 0);
    assert!(!spool.is_empty(), "nothing is acknowledged");
    spool.acknowledge();
    assert!(spool.is_empty() && segments(folder.path()).is_empty());
}

#[test]
fn acknowledged_messages_are_not_sent_again_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = open_spool(folder.path(), 1 << 20);
    (0..200).for_each(|number| assert_eq!(append(&mut spool, number), 0));
    let (first, _) = spool.read(150_000);
    spool.acknowledge();
    let (second, _) = spool.read(1);
    assert!(
        first.len() > 50 && !second.is_empty(),
        "{} messages",
        first.len()
    );
    drop(spool);
    let mut spool = open_spool(folder.path(), 1 << 20);
    assert_eq!(spool.lines(), 2 * (200 - first.len() as u64));
    let (rest, lost) = all(&mut spool);
    assert!(rest == (first.len() as u64..200).map(message).collect::<Vec<_>>() && lost == 0);
    spool.acknowledge();
    drop(spool);
    // The next segment has another number, so the old position does not skip its messages.
    let mut spool = open_spool(folder.path(), 1 << 20);
    append(&mut spool, 200);
    drop(spool);
    assert_eq!(
        all(&mut open_spool(folder.path(), 1 << 20)).0,
        [message(200)]
    );
}

#[test]
fn damaged_position_is_named_and_its_messages_are_sent_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = open_spool(folder.path(), 1 << 20);
    (0..200).for_each(|number| assert_eq!(append(&mut spool, number), 0));
    let (first, _) = spool.read(250_000);
    spool.acknowledge();
    drop(spool);
    let path = folder.path().join("spool/position");
    let whole = fs::read(&path).expect("read");
    let valid = read_position(&folder.path().join("spool"));
    assert!(position(&whole) == Some(valid) && valid.1 > 0 && valid.2 > 0 && !first.is_empty());
    // An earlier version wrote no copy.
    assert_eq!(position(&[&whole[..62], b"\n"].concat()), Some(valid));
    let (log, writer) = log();
    tracing::subscriber::with_default(writer, || {
        for (place, bit) in (0..whole.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut damaged = whole.clone();
            damaged[place] ^= 1 << bit;
            fs::write(&path, &damaged).expect("written");
            assert_eq!(
                read_position(&folder.path().join("spool")),
                (0, 0, 0),
                "bit {bit} of {place}"
            );
        }
        let count = |text: String| {
            text.matches("cannot read the position of the spool")
                .count()
        };
        assert_eq!(
            count(fs::read_to_string(log.path()).expect("a log")),
            8 * whole.len()
        );
        // What is in the spool is sent, and nothing is removed.
        let before = segments(folder.path());
        let mut spool = open_spool(folder.path(), 1 << 20);
        assert_eq!((segments(folder.path()), all(&mut spool).1), (before, 0));
    });
}

/// Returns a file, and a subscriber that writes the log into it.
fn log() -> (
    tempfile::NamedTempFile,
    impl tracing::Subscriber + Send + Sync,
) {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    let writer = std::sync::Mutex::new(file.reopen().expect("opened"));
    (
        file,
        tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(writer)
            .finish(),
    )
}

#[test]
fn incomplete_frame_at_the_end_is_removed() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = open_spool(folder.path(), 8 << 20);
    (0..3).for_each(|number| assert_eq!(append(&mut spool, number), 0));
    drop(spool);
    let [segment] = &segments(folder.path())[..] else {
        panic!("one segment")
    };
    let whole = fs::read(segment).expect("read");
    for removed in 1..=700 {
        fs::write(segment, &whole[..whole.len() - removed]).expect("written");
        let mut spool = open_spool(folder.path(), 8 << 20);
        append(&mut spool, 3);
        let (messages, lost) = all(&mut spool);
        assert!(
            messages == [message(0), message(1), message(3)] && lost == 0,
            "{removed} octets removed"
        );
        spool.acknowledge();
    }
    // After a loss of power, a file can end with zeros.
    fs::write(segment, [&whole[..], &[0; 4096]].concat()).expect("written");
    assert_eq!(all(&mut open_spool(folder.path(), 8 << 20)).0.len(), 3);
}

#[test]
fn oldest_messages_are_dropped_first_and_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = open_spool(folder.path(), 64 << 10);
    let dropped: u64 = (0..200).map(|number| append(&mut spool, number)).sum();
    assert!(spool.octets() <= 64 << 10);
    let (messages, lost) = all(&mut spool);
    assert_eq!((2 * messages.len() as u64 + dropped, lost), (400, 0));
    assert!(messages == (dropped / 2..200).map(message).collect::<Vec<_>>() && dropped > 0);
    assert_eq!(spool.lines(), 0);
    assert_eq!(
        spool.make_room(64 << 10),
        0,
        "records that were read are not lost"
    );
}

#[test]
fn damaged_frame_costs_its_records_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = open_spool(folder.path(), 8 << 20);
    (0..5).for_each(|number| assert_eq!(append(&mut spool, number), 0));
    spool.close();
    let [segment] = &segments(folder.path())[..] else {
        panic!("one segment")
    };
    assert!(
        segment.to_string_lossy().ends_with("-10.zst"),
        "{}",
        segment.display()
    );
    let mut octets = fs::read(segment).expect("read");
    let middle = octets.len() / 2;
    octets[middle] ^= 0x55;
    fs::write(segment, octets).expect("written");
    let (messages, lost) = all(&mut spool);
    assert_eq!((messages, lost), ([0, 1, 3, 4].map(message).to_vec(), 2));
    drop(spool);
    fs::write(segment, b"no frame").expect("written");
    assert_eq!(
        all(&mut open_spool(folder.path(), 8 << 20)),
        (Vec::new(), 10)
    );
}

#[test]
fn any_flipped_bit_costs_the_records_of_its_frame_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = open_spool(folder.path(), 8 << 20);
    let path = folder.path().join("spool").join("00000000000000000001.zst");
    let ends = [0, 1, 2].map(|number| {
        append(&mut spool, number);
        fs::metadata(&path).expect("a segment").len() as usize
    });
    drop(spool);
    let whole = fs::read(&path).expect("read");
    let closed = folder
        .path()
        .join("spool")
        .join("00000000000000000001-6.zst");
    // Most of a frame are the octets of its text.
    let places = (0..whole.len()).filter(|place| {
        ends.iter().any(|end| end.abs_diff(*place) < 12) || *place < 12 || place % 97 == 0
    });
    for (place, bit) in places.flat_map(|place| (0..8).map(move |bit| (place, bit))) {
        let mut damaged = whole.clone();
        damaged[place] ^= 1 << bit;
        let at = ends.iter().position(|end| place < *end).expect("a frame") as u64;
        let others: Vec<_> = (0..3).filter(|number| *number != at).map(message).collect();
        for path in [&path, &closed] {
            fs::write(path, &damaged).expect("written");
            let (messages, lost) = all(&mut open_spool(folder.path(), 8 << 20));
            // A segment without a whole frame is gone.
            let _ = fs::remove_file(path);
            // Some bits of a frame mean nothing.
            let is_whole = messages == [0, 1, 2].map(message) && lost == 0;
            let lost_of_all = if path == &closed { 2 } else { 0 };
            assert!(
                is_whole || messages == others && lost == lost_of_all,
                "{} bit {bit} of {place}: {} messages, {lost} lost",
                path.display(),
                messages.len()
            );
        }
    }
}

#[test]
fn segment_is_readable_by_zstd() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut spool = open_spool(folder.path(), 8 << 20);
    append(&mut spool, 7);
    let [segment] = &segments(folder.path())[..] else {
        panic!("one segment")
    };
    let text = zstd::stream::decode_all(&fs::read(segment).expect("read")[..]).expect("frames");
    let text = String::from_utf8(text).expect("text");
    assert!(
        text.starts_with("ibnet.f.s.batch id-7 2 2005\n7 ") && text.ends_with("\n7\n\n"),
        "{text}"
    );
}

#[test]
fn folder_has_one_process() {
    let folder = tempfile::tempdir().expect("a folder");
    let spool = open_spool(folder.path(), 1 << 20);
    let Err(error) = Spool::open(&options(folder.path(), 1 << 20)) else {
        panic!("refused")
    };
    assert_eq!(error.kind(), io::ErrorKind::ResourceBusy);
    drop(spool);
    open_spool(folder.path(), 1 << 20);
}
