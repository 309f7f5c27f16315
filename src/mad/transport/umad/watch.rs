//! Reports when a umad device appears or when its permissions change.
//!
//! The watch uses inotify on the folder of the devices. The alternative, the kernel's
//! announcements over netlink (uevents), does not reach containers and needs a netlink socket,
//! which the service unit does not allow.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};
use rustix::io::Errno;

use super::Waiting;

/// Folder of device nodes.
const DEVICES: &str = "/dev";

/// Folder of the umad devices, below [`DEVICES`]. The kernel creates it with the first device and
/// may remove it with the last one.
const INFINIBAND: &str = "infiniband";

/// Max time until the thread of a watch detects that the watch was dropped.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// A watch of the umad devices. Dropping it ends the watch.
#[derive(Debug)]
pub struct DeviceWatch {
    /// The thread of the watch ends when this value is dropped.
    _alive: Arc<()>,
}

impl DeviceWatch {
    /// Calls `changed` on a separate thread whenever a umad device appears, or its owner or mode
    /// changes, which udev sets after the kernel has created the device.
    ///
    /// # Errors
    /// Returns an error if inotify is not available, if the folder of the devices cannot be read,
    /// or if no thread can be started.
    pub fn start(changed: impl Fn() + Send + 'static) -> io::Result<Self> {
        Self::start_in(Path::new(DEVICES), changed)
    }

    fn start_in(root: &Path, changed: impl Fn() + Send + 'static) -> io::Result<Self> {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let folders = Folders {
            inotify,
            root: root.to_owned(),
        };
        folders.watch_root()?;
        folders.watch_devices();
        let alive = Arc::new(());
        let owner = Arc::downgrade(&alive);
        thread::Builder::new()
            .name("devices".to_owned())
            .spawn(move || folders.run(&owner, changed))?;
        Ok(Self { _alive: alive })
    }
}

/// The watched folders.
struct Folders {
    inotify: OwnedFd,
    root: PathBuf,
}

impl Folders {
    fn watch_root(&self) -> io::Result<()> {
        inotify::add_watch(
            &self.inotify,
            &self.root,
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR,
        )?;
        Ok(())
    }

    /// Watches the folder of the umad devices if it exists. A repeated call changes nothing.
    fn watch_devices(&self) {
        let flags =
            WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ATTRIB | WatchFlags::ONLYDIR;
        // Without the folder there is no device. The creation of the folder is an event of the
        // root folder.
        let _ = inotify::add_watch(&self.inotify, self.root.join(INFINIBAND), flags);
    }

    /// Waits for events until the watch is dropped, or until inotify fails.
    fn run(self, owner: &Weak<()>, changed: impl Fn()) {
        while owner.strong_count() > 0 {
            let mut fds = [libc::pollfd {
                fd: self.inotify.as_raw_fd(),
                events: libc::POLLIN,
                revents: 0,
            }];
            match Waiting::Precise.wait(&mut fds, CHECK_EVERY) {
                0 => continue,
                1.. => {}
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => continue,
                _ => return,
            }
            match self.read() {
                Ok(false) => {}
                Ok(true) if owner.strong_count() > 0 => changed(),
                _ => return,
            }
        }
    }

    /// Reads all events. Returns whether one of them concerns a umad device.
    fn read(&self) -> Result<bool, Errno> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        let mut found = false;
        loop {
            match reader.next() {
                // After an overflow, events are missing, so a device may have changed.
                Ok(event) if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) => {
                    found = true;
                }
                Ok(event) => {
                    let name = event
                        .file_name()
                        .map(|name| name.to_bytes())
                        .unwrap_or_default();
                    if name == INFINIBAND.as_bytes() {
                        // A device may have appeared before the folder was watched.
                        self.watch_devices();
                        found = true;
                    }
                    found |= name.starts_with(b"umad");
                }
                Err(Errno::AGAIN) => return Ok(found),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    /// Time after which a hanging test fails.
    const LONG: Duration = Duration::from_secs(600);

    fn watch(root: &Path) -> (DeviceWatch, Receiver<()>) {
        let (sender, events) = channel();
        let watch =
            DeviceWatch::start_in(root, move || sender.send(()).unwrap_or(())).expect("inotify");
        (watch, events)
    }

    #[test]
    fn device_that_appears_or_gets_a_group_is_reported() {
        let root = tempfile::tempdir().expect("a folder");
        let (_watch, events) = watch(root.path());
        let folder = root.path().join(INFINIBAND);
        fs::create_dir(&folder).expect("created");
        events.recv_timeout(LONG).expect("the folder");
        let device = folder.join("umad0");
        fs::write(&device, "").expect("created");
        events.recv_timeout(LONG).expect("the device");
        fs::set_permissions(&device, fs::Permissions::from_mode(0o660)).expect("changed");
        events.recv_timeout(LONG).expect("its mode");
    }

    #[test]
    fn folder_that_returns_is_watched_again() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join(INFINIBAND);
        fs::create_dir(&folder).expect("created");
        let (_watch, events) = watch(root.path());
        fs::remove_dir(&folder).expect("removed");
        fs::create_dir(&folder).expect("created");
        events.recv_timeout(LONG).expect("the folder");
        fs::write(folder.join("umad3"), "").expect("created");
        events.recv_timeout(LONG).expect("the device");
    }

    #[test]
    fn other_files_are_not_reported() {
        let root = tempfile::tempdir().expect("a folder");
        let folder = root.path().join(INFINIBAND);
        fs::create_dir(&folder).expect("created");
        let (_watch, events) = watch(root.path());
        fs::write(root.path().join("sda"), "").expect("created");
        fs::write(folder.join("uverbs0"), "").expect("created");
        fs::write(folder.join("umad0"), "").expect("created");
        events.recv_timeout(LONG).expect("the device");
        assert!(events.try_recv().is_err(), "one event, for the device");
    }

    #[test]
    fn dropped_watch_ends_its_thread() {
        let root = tempfile::tempdir().expect("a folder");
        let (watch, events) = watch(root.path());
        drop(watch);
        // The thread drops the sender when it ends.
        assert!(
            events
                .recv_timeout(LONG)
                .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Disconnected)
        );
    }
}
