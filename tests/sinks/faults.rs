//! What goes wrong with files.

use std::fs;
use std::process::{Command, Stdio};

use super::sampler::{Sampler, Told, once, say, wait_for};

const TWO_FILES: &str = "interval = \"10ms\"
    [[output]]
    type = \"file\"
    path = \"all\"
    [[output]]
    type = \"file\"
    path = \"disk/lines\"";

fn slots(sampler: &Sampler, file: &str) -> usize {
    sampler.read_now(file).matches("{\"type\":\"sweep\"").count()
}

/// A small disk that is unmounted in the end.
struct Disk<'a>(&'a Sampler);

impl<'a> Disk<'a> {
    /// `None`, said aloud, where no disk can be mounted.
    fn mount(sampler: &'a Sampler) -> Option<Self> {
        fs::create_dir(sampler.path("disk")).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(sampler.path("disk")).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Self(sampler));
        }
        assert!(std::env::var_os("IBNET_REQUIRE_MOUNT").is_none(), "no disk can be mounted");
        say("SKIPPED: no small disk can be mounted here to be filled (it takes root); IBNET_REQUIRE_MOUNT=1 makes this an error");
        None
    }
}

impl Drop for Disk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path("disk")).status();
    }
}

/// A disk gets full and has room again: what was lost is told, to the line, and slots went on.
#[test]
fn a_full_disk_that_has_room_again() {
    let sampler = Sampler::new(TWO_FILES);
    let Some(disk) = Disk::mount(&sampler) else { return };
    fs::write(sampler.path("disk/filler"), vec![0; 600 << 10]).unwrap();
    let running = sampler.start();
    wait_for("a full disk", || slots(&sampler, "all") > slots(&sampler, "disk/lines") + 20);
    fs::remove_file(sampler.path("disk/filler")).unwrap();
    let full = slots(&sampler, "disk/lines");
    wait_for("lines on it", || slots(&sampler, "disk/lines") > full + 3);
    let run = running.stop("TERM");
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stderr.contains("No space left on device") && run.stderr.contains("writing again"), "{}", run.stderr);
    let (all, told) = (Told::of(&sampler.read("all")), Told::of_any(&sampler.read("disk/lines")));
    assert!(told.lost > 0 && told.torn <= 2 && all.lost == 0, "{} lost, {} torn", told.lost, told.torn);
    assert!(told.lines.is_subset(&all.lines));
    assert_eq!(told.lines.len() as u64 + told.lost, all.lines.len() as u64);
    drop(disk);
}

/// The same without a disk: the name leads to a device that is always full, then elsewhere.
#[test]
fn lines_go_where_their_name_leads() {
    let sampler = Sampler::new(TWO_FILES);
    fs::create_dir(sampler.path("disk")).unwrap();
    std::os::unix::fs::symlink("/dev/full", sampler.path("disk/lines")).unwrap();
    let running = sampler.start();
    wait_for("slots", || slots(&sampler, "all") > 5);
    std::os::unix::fs::symlink("roomy", sampler.path("disk/other")).unwrap();
    fs::rename(sampler.path("disk/other"), sampler.path("disk/lines")).unwrap();
    wait_for("lines there", || slots(&sampler, "disk/roomy") > 3);
    assert_eq!(running.stop("TERM").code, 0);
    let (all, told) = (Told::of(&sampler.read("all")), Told::of(&sampler.read("disk/roomy")));
    assert!(told.lost > 0 && told.starts.len() == 1);
    assert_eq!(told.lines.len() as u64 + told.lost, all.lines.len() as u64);
}

/// Somebody renames the file, another removes it: nothing that is written is lost, and each file has a head.
#[test]
fn a_file_that_is_rotated_away_by_somebody_else() {
    let sampler = Sampler::new(TWO_FILES);
    fs::create_dir(sampler.path("disk")).unwrap();
    let running = sampler.start();
    for name in ["disk/lines.1", "disk/lines.2"] {
        wait_for("slots", || slots(&sampler, "disk/lines") > 3);
        fs::rename(sampler.path("disk/lines"), sampler.path(name)).unwrap();
    }
    wait_for("another file", || slots(&sampler, "disk/lines") > 3);
    let run = running.stop("TERM");
    assert!(run.code == 0 && run.stderr.contains("somebody moved the file away"), "{}", run.stderr);
    let files = ["disk/lines.1", "disk/lines.2", "disk/lines"].map(|name| Told::of(&sampler.read(name)));
    let seqs: Vec<_> = files.iter().map(|file| file.starts.iter().map(|start| start.file_seq).collect::<Vec<_>>()).collect();
    assert_eq!(seqs, [[0], [1], [2]]);
    let lines: usize = files.iter().map(|file| file.lines.len()).sum();
    assert_eq!(lines, Told::of(&sampler.read("all")).lines.len());
}

/// Killed again and again while it writes: at most one torn line each time, and it is closed.
#[test]
fn a_sampler_that_is_killed_leaves_whole_lines() {
    let sampler = Sampler::new("interval = \"10ms\"\noutput = \"lines\"");
    const TIMES: usize = 5;
    for time in 0..TIMES {
        let before = slots(&sampler, "lines");
        let running = sampler.start();
        wait_for("slots", || slots(&sampler, "lines") > before + 2 * time);
        running.stop("KILL");
    }
    let running = sampler.start();
    let before = slots(&sampler, "lines");
    wait_for("slots", || slots(&sampler, "lines") > before);
    assert_eq!(running.stop("TERM").code, 0);
    let text = sampler.read("lines");
    let told = Told::of_any(&text);
    assert!(told.torn <= TIMES && told.lost == 0 && text.ends_with('\n'), "{} torn", told.torn);
    assert_eq!(told.starts.len(), TIMES + 1);
    assert!((1..=TIMES).all(|at| told.starts[..at].iter().all(|start| *start != told.starts[at])), "no two are alike");
}

/// Whatever stands still, a signal ends it, and the outputs that do not stand still have all.
#[test]
fn a_signal_ends_it_although_outputs_stand_still() {
    let sampler = Sampler::new(
        "interval = \"10ms\"
        [[output]]
        type = \"file\"
        path = \"all\"
        [[output]]
        type = \"stdout\"
        buffer_mib = 1
        [[output]]
        type = \"unix\"
        path = \"sock\"
        buffer_mib = 1",
    );
    let mut child = sampler.command().stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let reader = sampler.unix("sock");
    // Neither the pipe nor the socket is read.
    wait_for("3 MB of lines", || fs::metadata(sampler.path("all")).is_ok_and(|file| file.len() > 3 << 20));
    super::sampler::signal(&child, "TERM");
    let status = once("an end", || child.try_wait().unwrap());
    let stderr = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert_eq!(status.code(), Some(0), "{stderr}");
    assert!(stderr.contains("stands still"), "{stderr}");
    let all = Told::of(&sampler.read("all"));
    assert_eq!(all.lost, 0);
    drop(reader);
}
