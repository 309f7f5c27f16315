//! Keeps the recent records in memory.
//!
//! The store keeps each record of the last minutes with all of its fields, in compact chunks. For
//! the time before, it keeps the mean and the max of each minute. Both have a size limit, and the
//! oldest data is dropped first.
//!
//! 1. **Records stay as they arrived.** The records of two samplers of a port are stored separately
//!    and merged when they are read, by the rules of [`ibnet_analysis::input`]: the primary sampler
//!    wins, and the secondary fills its gaps.
//! 2. **Late records count.** Reading sorts them into their time. A record of a slot that is
//!    already stored is a copy, and is dropped.
//! 3. **Reading does not block the input.** A reader takes references to the chunks and decodes
//!    them without a lock.

use std::sync::Arc;

use ibnet_analysis::ports::PortKey;
use ibnet_analysis::record::{Port, Record};
use ibnet_record::minute::MINUTE_NS;
use ibnet_record::types::{Guid, PortNum};
use rustc_hash::FxHashMap;

use self::chunk::{Chunk, Of, Wanted};
use self::minutes::{Minute, Minutes};
use self::names::Names;
use self::physical::Physical;
use self::track::{Added, Track, age_of};
use crate::samplers::Source;

pub(crate) mod chunk;
mod column;
pub(crate) mod minutes;
mod names;
pub(crate) mod physical;
mod table;
mod track;

/// Max number of ports. There must be a limit because an input can invent ports.
pub(crate) const MAX_PORTS: usize = 262_144;

/// Max number of samplers of one port.
const MAX_TRACKS: usize = 8;

/// Size in bytes of a track's table with one record.
const TABLE: usize = 1024;

/// Largest share of the size of all records that the physical layer has: one of this number.
const PHYSICAL_SHARE: usize = 4;

/// Time before a time range in which there usually is a reading of each counter.
const NEAR_NS: u64 = 10_000_000_000;

/// Limits of the store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Limits {
    /// Time for which records are kept, in nanoseconds.
    pub(crate) recent_ns: u64,
    /// Max size of all records in bytes.
    pub(crate) recent_max: usize,
    /// Time for which minutes are kept, in nanoseconds.
    pub(crate) minutes_ns: u64,
    /// Max size of all minutes in bytes.
    pub(crate) minutes_max: usize,
}

/// Reference times for the age of data, in nanoseconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    /// Newest record of all right clocks, or 0 without any.
    pub(crate) newest_ns: u64,
    /// Clock of the hub.
    pub(crate) wall_ns: u64,
}

impl Times {
    /// Returns the reference time for data without a clock of its own. Records can come from the
    /// past, and the clocks of all samplers or that of the hub can be ahead, so the smaller time is
    /// used: it drops nothing too early.
    pub(crate) fn now_ns(self) -> u64 {
        self.newest_ns.min(self.wall_ns)
    }
}

/// Counts of the records.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub(crate) struct Counts {
    /// Records that were added.
    pub(crate) added: u64,
    /// Records that are older than another record of the same sampler and port.
    pub(crate) late: u64,
    /// Records that were already there.
    pub(crate) copies: u64,
    /// Records that were refused because there are too many ports or samplers.
    pub(crate) refused: u64,
}

/// What is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub(crate) struct Kept {
    /// Time of the oldest record, in nanoseconds since 1970.
    pub(crate) from_ns: Option<u64>,
    /// Time of the newest record, in nanoseconds since 1970.
    pub(crate) to_ns: Option<u64>,
    /// Start of the oldest minute, in nanoseconds since 1970.
    pub(crate) minutes_from_ns: Option<u64>,
    /// Start of the oldest hour of the archive, in nanoseconds since 1970.
    pub(crate) archive_from_ns: Option<u64>,
    /// Size of all records, minutes and values of the physical layer in bytes.
    pub(crate) octets: usize,
    /// Number of ports.
    pub(crate) ports: usize,
}

/// The records of all ports.
#[derive(Debug)]
pub(crate) struct Store {
    limits: Limits,
    names: Arc<Names>,
    ids: FxHashMap<PortKey, u32>,
    ports: Vec<Tracks>,
    /// The physical layer.
    pub(crate) physical: Physical,
    /// Size of the compact chunks in bytes.
    octets: usize,
    /// Size in bytes of the records that are not compact, as of the last removal, and of the tracks
    /// added since.
    open: usize,
    /// Size of the compact minutes in bytes.
    minute_octets: usize,
    /// Newest record of all right clocks at the last removal, in nanoseconds since 1970.
    trimmed_ns: u64,
    counts: Counts,
}

/// The records of one port.
#[derive(Debug)]
struct Tracks {
    key: PortKey,
    tracks: Vec<Track>,
    minutes: Minutes,
}

/// The chunks of one port, as references that need no lock.
#[derive(Debug)]
pub(crate) struct PortChunks {
    pub(crate) key: PortKey,
    names: Arc<Names>,
    tracks: Vec<(Arc<str>, bool, Vec<Arc<Chunk>>)>,
}

impl Store {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            names: Arc::default(),
            ids: FxHashMap::default(),
            ports: Vec::new(),
            physical: Physical::new(limits.recent_max / PHYSICAL_SHARE),
            octets: 0,
            open: 0,
            minute_octets: 0,
            trimmed_ns: 0,
            counts: Counts::default(),
        }
    }

    /// Adds a record. Returns false if the record is a copy or was refused.
    ///
    /// A record of a sampler with a wrong clock is kept *apart*: it does not count in the means
    /// of minutes.
    pub(crate) fn add(&mut self, port: &Port<'_>, source: &Source) -> bool {
        let Some(added) = self.try_add(port, source) else {
            self.counts.refused += 1;
            return false;
        };
        match added {
            Added::Copy => {
                self.counts.copies += 1;
                return false;
            }
            Added::Late => self.counts.late += 1,
            Added::Newest => {}
        }
        self.counts.added += 1;
        true
    }

    fn try_add(&mut self, port: &Port<'_>, source: &Source) -> Option<Added> {
        let is_full = self.open + self.physical.octets() >= self.limits.recent_max;
        let id = match self.ids.get(&port.key()) {
            Some(id) => *id as usize,
            None if self.ports.len() < MAX_PORTS && !is_full => {
                let id = self.ports.len();
                self.ids.insert(port.key(), id as u32);
                self.ports.push(Tracks {
                    key: port.key(),
                    tracks: Vec::new(),
                    minutes: Minutes::default(),
                });
                id
            }
            None => return None,
        };
        let Tracks {
            tracks, minutes, ..
        } = &mut self.ports[id];
        let is_secondary = port.is_secondary();
        let place = match tracks
            .iter()
            .position(|track| track.is_secondary == is_secondary && *track.sampler == *source.name)
        {
            Some(place) => place,
            None if tracks.len() < MAX_TRACKS && !is_full => {
                let track = Track::new(port, Arc::clone(&source.name), is_secondary);
                self.open += track.open_octets() + TABLE;
                tracks.push(track);
                tracks.len() - 1
            }
            None => return None,
        };
        let track = &mut tracks[place];
        track.is_apart = source.is_apart;
        track.forget_after(source.newest_ns);
        let added = track.add(
            port,
            self.limits.recent_ns,
            &mut self.names,
            &mut self.octets,
        );
        if added != Added::Copy && !source.is_apart {
            minutes.add(port, &mut self.minute_octets);
        }
        Some(added)
    }

    /// Counts a record that the caller refused.
    pub(crate) const fn refuse(&mut self) {
        self.counts.refused += 1;
    }

    /// Marks the records of a sampler as those of a wrong clock or a right one.
    pub(crate) fn set_apart(&mut self, sampler: &str, is_apart: bool) {
        let tracks = self.ports.iter_mut().flat_map(|port| &mut port.tracks);
        tracks
            .filter(|track| *track.sampler == *sampler)
            .for_each(|track| track.is_apart = is_apart);
    }

    /// Drops the data that is older than the limits, and the oldest data if there is too much.
    /// `now_of` returns the current time by the clock of a sampler. A record is old only if it is
    /// far from both that clock and the clock of the hub, so a single record from the future makes
    /// no other record old.
    pub(crate) fn trim(&mut self, now_of: &dyn Fn(&str) -> u64, times: Times) {
        let now_of = &|sampler: &str| [now_of(sampler), times.wall_ns];
        self.drop_older(now_of, self.limits.recent_ns);
        let open = |ports: &[Tracks]| {
            ports
                .iter()
                .flat_map(|port| &port.tracks)
                .map(Track::open_octets)
                .sum()
        };
        self.open = open(&self.ports);
        if self.open > self.limits.recent_max / 2 {
            // Many ports with few records each: compact them early.
            self.octets += self
                .ports
                .iter_mut()
                .flat_map(|port| &mut port.tracks)
                .map(Track::close)
                .sum::<usize>();
            self.open = open(&self.ports);
        }
        let other = self.open + self.physical.octets();
        let most = self.limits.recent_max.saturating_sub(other);
        if self.octets > most {
            let tracks = self.ports.iter().flat_map(|port| &port.tracks);
            let ages = tracks.flat_map(|track| {
                let now = now_of(&track.sampler);
                track
                    .ends()
                    .map(move |(end, octets)| (age_of(end, now), octets))
            });
            let mut ages: Vec<(u64, usize)> = ages.collect();
            ages.sort_unstable_by(|one, other| other.cmp(one));
            let mut excess = self.octets - most;
            let dropped = ages.iter().take_while(|(_, octets)| {
                let is_dropped = excess > 0;
                excess = excess.saturating_sub(*octets);
                is_dropped
            });
            // Chunks of other ports with the same age are dropped too.
            self.drop_older(
                now_of,
                dropped
                    .last()
                    .map_or(u64::MAX, |(age, _)| age.saturating_sub(1)),
            );
        }
        let octets = &mut self.minute_octets;
        if times.newest_ns > 0 {
            let is_set_back =
                times.newest_ns < std::mem::replace(&mut self.trimmed_ns, times.newest_ns);
            self.ports.iter_mut().for_each(|port| {
                port.minutes
                    .drop_after(times.newest_ns, is_set_back, octets);
            });
        }
        let mut before = times.now_ns().saturating_sub(self.limits.minutes_ns);
        self.physical.drop_before(before);
        loop {
            self.ports
                .iter_mut()
                .for_each(|port| port.minutes.drop_before(before, octets));
            let oldest = self
                .ports
                .iter()
                .filter_map(|port| port.minutes.first_ns())
                .min();
            let Some(oldest) = oldest.filter(|_| *octets > self.limits.minutes_max) else {
                break;
            };
            // One more hour at a time until the limit is kept. The current hour is not compact yet.
            before = before.max(oldest).saturating_add(60 * MINUTE_NS);
        }
        self.forget_silent_ports();
    }

    fn drop_older(&mut self, now_of: &dyn Fn(&str) -> [u64; 2], age: u64) {
        for port in &mut self.ports {
            port.tracks.retain_mut(|track| {
                let now = now_of(&track.sampler);
                self.octets -= track.drop_older(now, age);
                // The sampler no longer reads the port.
                !track.is_older(now, age)
            });
        }
    }

    fn forget_silent_ports(&mut self) {
        let before = self.ports.len();
        self.ports
            .retain(|port| !port.tracks.is_empty() || port.minutes.first_ns().is_some());
        if self.ports.len() < before {
            self.ids = self
                .ports
                .iter()
                .zip(0..)
                .map(|(port, id)| (port.key, id))
                .collect();
        }
    }

    pub(crate) fn keys(&self) -> Vec<PortKey> {
        self.ports.iter().map(|port| port.key).collect()
    }

    /// Returns the chunks of a port with records from `from` to `to`, in nanoseconds since 1970.
    pub(crate) fn chunks(&self, key: PortKey, from: u64, to: u64) -> Option<PortChunks> {
        Some(self.take(self.tracks(key)?, |track| track.chunks(from, to)))
    }

    pub(crate) fn last_chunk(&self, key: PortKey) -> Option<PortChunks> {
        Some(self.take(self.tracks(key)?, |track| {
            track.last_chunk().into_iter().collect()
        }))
    }

    fn take(&self, port: &Tracks, chunks: impl Fn(&Track) -> Vec<Arc<Chunk>>) -> PortChunks {
        let tracks = port
            .tracks
            .iter()
            .map(|track| {
                (
                    Arc::clone(&track.sampler),
                    track.is_secondary,
                    chunks(track),
                )
            })
            .collect();
        PortChunks {
            key: port.key,
            names: Arc::clone(&self.names),
            tracks,
        }
    }

    fn tracks(&self, key: PortKey) -> Option<&Tracks> {
        self.ports.get(*self.ids.get(&key)? as usize)
    }

    pub(crate) fn minutes(&self, key: PortKey, from: u64, to: u64) -> Vec<Minute> {
        self.tracks(key)
            .map(|port| port.minutes.read(from, to))
            .unwrap_or_default()
    }

    pub(crate) const fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the time of the oldest record. Records of wrong clocks do not count, because they
    /// would hide that the others begin later.
    pub(crate) fn first_ts(&self) -> Option<u64> {
        self.ports
            .iter()
            .flat_map(|port| &port.tracks)
            .filter(|track| !track.is_apart)
            .filter_map(Track::first_ts)
            .min()
    }

    /// Returns the time of the oldest record of a port.
    pub(crate) fn first_ts_of(&self, key: PortKey) -> Option<u64> {
        self.tracks(key)?
            .tracks
            .iter()
            .filter(|track| !track.is_apart)
            .filter_map(Track::first_ts)
            .min()
    }

    /// Returns what is kept. `newest_ns` is the newest record of all right clocks.
    pub(crate) fn kept(&self, newest_ns: u64) -> Kept {
        let tracks = || self.ports.iter().flat_map(|port| &port.tracks);
        let open: usize = tracks().map(Track::open_octets).sum();
        Kept {
            from_ns: self.first_ts(),
            to_ns: (newest_ns > 0).then_some(newest_ns),
            minutes_from_ns: self
                .ports
                .iter()
                .filter_map(|port| port.minutes.first_ns())
                .min(),
            archive_from_ns: None,
            octets: self.octets + self.minute_octets + self.physical.octets() + open,
            ports: self.ports.len(),
        }
    }
}

impl PortChunks {
    /// Reads the records, in any order.
    pub(crate) fn read(&self, wanted: &Wanted) -> Vec<Port<'_>> {
        self.read_since(wanted, 0, |port| port)
    }

    /// Reads the records since a time, in nanoseconds since 1970.
    fn read_since<'a, R>(
        &'a self,
        wanted: &Wanted,
        since: u64,
        make: impl Fn(Port<'a>) -> R + Copy,
    ) -> Vec<R> {
        let (guid, port): (Guid, PortNum) = self.key;
        let mut records = Vec::new();
        for (sampler, is_secondary, chunks) in &self.tracks {
            let of = Of {
                sampler,
                is_secondary: *is_secondary,
                guid,
                port,
            };
            let is_near = |chunk: &&Arc<Chunk>| chunk.span.1 >= since;
            for chunk in chunks.iter().filter(is_near) {
                chunk.read(of, &self.names, (wanted, since), make, &mut records);
            }
        }
        records
    }

    /// Reads the records for a fold over a time range that begins at `from`. The fold needs the last
    /// reading of each counter before the range. If the nearest records have one, older ones are
    /// not read, because reading costs more than the fold.
    pub(crate) fn records_from(&self, wanted: &Wanted, from: u64) -> Vec<Record<'_>> {
        let since = from.saturating_sub(NEAR_NS);
        let near = self.read_since(wanted, since, Record::Port);
        let counters = |is_before: bool| {
            let records = near.iter().filter_map(|record| match record {
                Record::Port(port) if (port.ts < from) == is_before => Some(port.counters.len()),
                _ => None,
            });
            records.max()
        };
        let mut chunks = self.tracks.iter().flat_map(|(_, _, chunks)| chunks);
        if counters(true) >= counters(false) || !chunks.any(|chunk| chunk.span.0 < since) {
            return near;
        }
        self.records(wanted)
    }

    /// Reads the records for a fold.
    pub(crate) fn records(&self, wanted: &Wanted) -> Vec<Record<'_>> {
        self.read_since(wanted, 0, Record::Port)
    }
}

#[cfg(test)]
mod tests;
