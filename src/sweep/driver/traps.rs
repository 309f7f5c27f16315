//! Traps of the subnet manager. A thread with its own transport subscribes to them, and the driver
//! evaluates the received traps at the start of the next slot.
//!
//! The MAD thread sends none of these MADs and waits for none of them. If a subscription is not
//! possible, the driver works as without one: it reads the state of the links about once a minute.

use std::fmt::Display;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use ibnet_record::EventName;

use super::clock::Clock;
use super::reconnect::{OpenError, Opened};
use super::{Driver, NAMED_IN_LOG};
use crate::mad::exchange::Outcome;
use crate::mad::inform::{LINK_STATE, Trap};
use crate::mad::sa;
use crate::mad::transport::{Locator, Transport, TransportError};
use crate::mad::{MAD_LEN, Mad};
use crate::sweep::subscription::{Condition, Subscription};
use crate::time::Instant;

/// Max number of traps that wait for the driver. Further traps are dropped, because the next
/// periodic check reads the links anyway.
const WAITING: usize = 256;

/// Backoff between two attempts to open the transport: the first one, which doubles after each
/// failed attempt, and the max. The kernel logs each refused attempt.
const OPEN_AFTER: Duration = Duration::from_millis(250);
const OPEN_EVERY: Duration = Duration::from_secs(60);

/// Time after which a connection counts as good, so that the backoff starts again at its first
/// value. A device that opens but then fails is opened less and less often.
const LASTED: Duration = Duration::from_secs(10);

/// Time between two readings of the location.
const LOCATE_EVERY: Duration = Duration::from_secs(1);

/// Max wait for a MAD. It bounds the delay of a stop.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// Max time to cancel the subscription at the stop.
const WITHDRAW: Duration = Duration::from_millis(500);

/// Time for which attempts must fail before the reason is reported. During a reload, the first
/// attempts fail because the old driver still receives the reports.
const REPORTED_AFTER: Duration = Duration::from_secs(3);

/// What the thread passes to the driver.
enum News {
    Trap(Trap),
    /// The detail of an event about the subscription, and whether it works.
    Condition(String, bool),
}

/// The thread that receives traps. Dropping this value ends the subscription and waits for the
/// thread.
pub(super) struct TrapWatch {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    news: Receiver<News>,
}

impl Drop for TrapWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the thread was already printed.
            let _ = thread.join();
        }
    }
}

/// The state of the thread.
struct Watcher<C, O> {
    open: O,
    clock: C,
    seed: u64,
    stop: Arc<AtomicBool>,
    news: SyncSender<News>,
}

impl<C: Clock, R: Transport, O: FnMut() -> Result<Opened<R>, OpenError>> Watcher<C, O> {
    fn run(mut self) {
        let mut backoff = OPEN_AFTER;
        let (mut failing_since, mut is_reported) = (None, false);
        while !self.is_stopped() {
            match (self.open)() {
                Ok(opened) => {
                    (failing_since, is_reported) = (None, false);
                    let since = self.clock.now();
                    if let Err(error) = self.watch(opened) {
                        self.tell(
                            format!("the connection is lost, it is opened again: {error}"),
                            false,
                        );
                    }
                    if self.clock.now() >= since + LASTED {
                        backoff = OPEN_AFTER;
                    }
                }
                Err(error) => {
                    let now = self.clock.now();
                    if now >= *failing_since.get_or_insert(now) + REPORTED_AFTER
                        && !std::mem::replace(&mut is_reported, true)
                    {
                        self.tell(format!("not possible: {error}"), false);
                    }
                }
            }
            let until = self.clock.now() + backoff;
            backoff = (backoff * 2).min(OPEN_EVERY);
            while !self.is_stopped() && self.clock.now() < until {
                thread::sleep(LONGEST_WAIT);
            }
        }
    }

    /// Subscribes, and receives reports until the stop.
    fn watch(
        &mut self,
        Opened {
            mut transport,
            pkey_index,
            ..
        }: Opened<R>,
    ) -> Result<(), TransportError> {
        let mut subscription = Subscription::new(pkey_index, self.seed);
        let mut locator = transport.locator();
        let mut located = None;
        while !self.is_stopped() {
            let now = self.clock.now();
            self.locate(&mut subscription, &mut locator, &mut located, now);
            self.turn(&mut subscription, &mut transport)?;
        }
        let now = self.clock.now();
        subscription.withdraw(now);
        while !subscription.has_ended() && self.clock.now() < now + WITHDRAW {
            self.turn(&mut subscription, &mut transport)?;
        }
        Ok(())
    }

    fn locate(
        &self,
        subscription: &mut Subscription,
        locator: &mut Locator,
        located: &mut Option<Instant>,
        now: Instant,
    ) {
        if located.is_none_or(|at| now >= at + LOCATE_EVERY) {
            *located = Some(now);
            if let Some(local) = locator() {
                subscription.set_local(local, now);
            }
        }
    }

    /// Sends what is due, and receives at most one MAD.
    fn turn(
        &self,
        subscription: &mut Subscription,
        transport: &mut R,
    ) -> Result<(), TransportError> {
        let mut mad: Mad = [0; MAD_LEN];
        let mut now = self.clock.now();
        while let Some(target) = subscription.poll_transmit(now, &mut mad) {
            if let Err(error) = transport.send(&target, &mad, now)
                && error.is_lost()
            {
                return Err(error);
            }
        }
        let completion = transport.recv(&mut mad, LONGEST_WAIT, now)?;
        now = self.clock.now();
        if let Some(completion) = completion
            && let Outcome::Reply { slid, len } = completion.outcome
            && let Some(trap) = subscription.handle(slid, &mad, len, now)
        {
            // The driver may not take the traps; periodic checks then read the links.
            let _ = self.news.try_send(News::Trap(trap));
        }
        if let Some(condition) = subscription.handle_timeout(now) {
            match condition {
                Condition::Active(lid) => self.tell(
                    format!("the subnet manager at LID {lid} forwards traps 128 and 144"),
                    true,
                ),
                Condition::Refused(lid, status) => {
                    self.tell(
                        format!(
                            "the subnet manager at LID {lid} refused with status {}",
                            sa::Status(status)
                        ),
                        false,
                    );
                }
                Condition::Silent(lid) => self.tell(
                    format!("the subnet manager at LID {lid} does not answer"),
                    false,
                ),
            }
        }
        Ok(())
    }

    fn tell(&self, detail: String, works: bool) {
        let _ = self.news.try_send(News::Condition(detail, works));
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

impl<T: Transport, C: Clock> Driver<T, C> {
    /// Subscribes to traps on a thread of its own. `open` opens the transport that receives the
    /// reports of the subnet manager. TIDs count up from the seed.
    #[must_use]
    pub fn with_traps<R: Transport>(
        mut self,
        seed: u64,
        open: impl FnMut() -> Result<Opened<R>, OpenError> + Send + 'static,
    ) -> Self
    where
        C: Send + 'static,
    {
        let (sender, news) = sync_channel(WAITING);
        let stop = Arc::<AtomicBool>::default();
        let watcher = Watcher {
            open,
            clock: self.clock.clone(),
            seed,
            stop: Arc::clone(&stop),
            news: sender,
        };
        match thread::Builder::new()
            .name("traps".to_owned())
            .spawn(move || watcher.run())
        {
            Ok(thread) => {
                self.traps = Some(TrapWatch {
                    stop,
                    thread: Some(thread),
                    news,
                });
            }
            Err(error) => {
                tracing::warn!(%error, "cannot start the thread for traps; link changes are found by queries only");
            }
        }
        self
    }

    /// Handles what the thread has received: reads the links of the devices that the traps name,
    /// in this slot.
    pub(super) fn take_traps(&mut self, slot: u64) {
        let Some(traps) = &self.traps else { return };
        let (mut changed, mut conditions) = (Vec::new(), Vec::new());
        for news in traps.news.try_iter() {
            match news {
                // A link that goes up and down causes many traps.
                News::Trap(trap) if changed.contains(&trap) => {}
                News::Trap(trap) => changed.push(trap),
                News::Condition(detail, works) => conditions.push((detail, works)),
            }
        }
        for (detail, works) in conditions {
            if works {
                tracing::info!(%detail, "traps are received");
            } else {
                tracing::warn!(%detail, "cannot receive traps; link changes are found by queries only");
            }
            self.write_event(slot, EventName::Traps, None, &detail);
        }
        let mut named = 0;
        for Trap { number, lid } in changed {
            // The device belongs to another sampler.
            let Some(device) = self.engine.read_links_at(lid) else {
                continue;
            };
            named += 1;
            let what = if number == LINK_STATE {
                "the state of a link has changed"
            } else {
                "the properties of a port have changed"
            };
            if named <= NAMED_IN_LOG {
                log_trap(number, &lid, what);
            }
            self.write_event(
                slot,
                EventName::Trap,
                Some(self.first_ports[device]),
                &format!("trap {number}: {what}; the links are read again"),
            );
        }
    }
}

fn log_trap(number: u16, lid: &impl Display, what: &str) {
    tracing::info!(trap = number, %lid, "{what}");
}
