//! Keeps one slot in a number of them, for a page over more ports than a hub can keep in full.
//!
//! A kept record stands for all slots since the one before it, as if the interval of its sampler
//! were longer. Counters are totals, so errors and bytes stay exact. The rates are those of the
//! last slot, which a shorter congestion can miss. Events, the physical layer and the sums of lost
//! slots and lines are kept in full.

use ibnet_analysis::record::{Head, Record, Type};
use ibnet_record::slots::interval_by_slot;

/// Returns whether a slot is kept: the last one of its slots.
const fn is_kept(slot: u64, every: u64) -> bool {
    slot % every == every - 1
}

/// Returns whether a line need not be parsed.
pub(crate) fn is_left_out(head: &Head, every: u64) -> bool {
    let slot = head.slot.filter(|_| head.kind == Some(Type::Port));
    slot.is_some_and(|slot| !is_kept(slot, every))
}

/// Changes a record to one of longer slots. Returns false if it is left out.
pub(crate) fn thin(record: &mut Record<'_>, every: u64) -> bool {
    match record {
        Record::Port(port) => {
            let longer = interval_by_slot(port.ts, port.slot, 0).map(|ns| ns.saturating_mul(every));
            let is_kept = is_kept(port.slot, every);
            port.slot /= every;
            let fields = &mut **port;
            for dt_ns in [&mut fields.dt_ns, &mut fields.xmit_blocked_dt_ns] {
                *dt_ns = dt_ns.map(|dt_ns| dt_ns.max(longer.unwrap_or(dt_ns)));
            }
            is_kept && port.check().is_ok()
        }
        Record::Sweep(sweep) => {
            let is_kept = is_kept(sweep.slot, every);
            sweep.slot /= every;
            is_kept
        }
        Record::Start(start) => {
            start.slot /= every;
            start.interval_ns = start.interval_ns.saturating_mul(every);
            true
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use crate::ingest::{self, Clock};
    use crate::input::{Message, What};
    use crate::query::evaluated::evaluate;
    use crate::state::tests::{START, new};
    use crate::store::Limits;
    use crate::store::chunk::Wanted;
    use ibnet_record::types::{Guid, PortNum};

    const SECOND: u64 = 1_000_000_000;

    fn slot(sampler: &str, guid: u64, slot: u64) -> String {
        let (ts, guid) = (slot * SECOND + 1000, Guid(guid));
        format!(
            "{{\"type\":\"port\",\"ts\":{ts},\"slot\":{slot},\"sampler\":\"{sampler}\",\"guid\":\"{guid}\",\"port\":1,\"status\":\"ok\",\"port_xmit_pkts\":{slot},\"dt_ns\":{SECOND},\"xmit_utilization\":0.5}}\n\
             {{\"type\":\"sweep\",\"ts\":{ts},\"slot\":{slot},\"sampler\":\"{sampler}\",\"ca\":\"c\",\"ca_port\":1,\"role\":\"primary\",\"duration_ns\":1,\"ports\":1,\"ok\":1,\"late\":0,\"timeout\":0,\"slots_missed\":1,\"lines_lost\":2}}\n"
        )
    }

    /// Two parts of a fabric, as two hubs and a page over both get them.
    #[test]
    fn one_slot_in_ten_of_two_parts_is_kept_and_sums_stay_exact() {
        let limits = Limits {
            recent_ns: 3600 * SECOND,
            recent_max: usize::MAX,
            minutes_ns: 3600 * SECOND,
            minutes_max: usize::MAX,
        };
        let hub = new(limits).with_every(10);
        let first = START / 10 * 10;
        let clock = Clock::start();
        let send = |text: String| {
            let what = What::Lines(text.into_bytes());
            ingest::handle(
                &hub,
                Message {
                    input: 0,
                    live_ns: None,
                    what,
                },
                clock,
            );
        };
        for second in first..first + 40 {
            send(slot("a", 1, second));
            // The samplers of the second part stop.
            if second < first + 25 {
                send(slot("b", 2, second));
            }
        }
        let state = hub.read();
        let times = |guid| {
            let chunks = state.store.chunks((Guid(guid), PortNum(1)), 0, u64::MAX);
            let chunks = chunks.expect("records");
            let records = chunks.read(&Wanted::All);
            let of =
                |port: &ibnet_analysis::record::Port<'_>| (port.ts / SECOND - first, port.dt_ns);
            records.iter().map(of).collect::<Vec<_>>()
        };
        let kept = |seconds: &[u64]| -> Vec<_> {
            seconds
                .iter()
                .map(|second| (*second, Some(10 * SECOND)))
                .collect()
        };
        assert_eq!(times(1), kept(&[9, 19, 29, 39]));
        assert_eq!(times(2), kept(&[9, 19]));
        assert_eq!(state.samplers.interval_ns(), 10 * SECOND);
        let rows = state.samplers.rows();
        let of = |row: &crate::samplers::Sampler| (row.last_slot, row.slots_missed, row.lines_lost);
        // The sums begin with the first sweep that is kept.
        assert_eq!(
            rows.iter().map(of).collect::<Vec<_>>(),
            [((first + 39) / 10, 31, 62), ((first + 19) / 10, 16, 32)]
        );
        let input = &state.inputs[0];
        assert_eq!((input.lines, input.malformed), (2 * (40 + 25), 0));
        drop(state);
        let range = (first * SECOND, (first + 40) * SECOND);
        let found = evaluate(&hub, range).expect("evaluated");
        let bins = found.ports().values().map(|port| &port.bins);
        assert_eq!(
            bins.map(|bins| (bins.width_ns() / SECOND, bins.iter().count()))
                .collect::<Vec<_>>(),
            [(10, 4), (10, 2)]
        );
    }
}
