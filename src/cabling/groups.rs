//! Groups the cables that differ between two fabrics, and pairs those that were moved.
//!
//! A port has at most one cable in each fabric. The cables of both fabrics that differ therefore
//! form chains, in which a planned and a found cable alternate and each two neighbours share a
//! port. A chain may be closed. Within a chain of `n` planned and `m` found cables, no fewer than
//! `max(n, m)` steps lead from the found to the planned cables, if one step plugs one end of a
//! cable into another port, adds a cable or removes one. [`groups`] returns exactly these steps:
//! each pair of a planned and a found cable is one step, and so is the cable that remains.

use std::collections::BTreeMap;

/// The two ports of a cable, in any order.
pub(crate) type Ends<P> = [P; 2];

/// The cables of one chain, as indices.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Group {
    /// A planned cable and the found cable that becomes it if one of its ends is moved.
    pub(crate) pairs: Vec<(usize, usize)>,
    /// The planned cable for which no found cable remains.
    pub(crate) missing: Option<usize>,
    /// The found cable for which no planned cable remains.
    pub(crate) unplanned: Option<usize>,
    /// Whether the chain is closed: its cables are plugged into one another's ports.
    pub(crate) closed: bool,
}

/// A planned cable (`true`) or a found one, and its index.
type Link = (bool, usize);

/// Returns the groups of the cables that are in only one of the lists, in the order of `planned`
/// and then of `found`. If several pairings need the fewest steps, the one with the lowest sum of
/// `cost`, which is given the port that stays, the planned other port and the found one, is
/// chosen.
///
/// If a list has two cables on one port, the first is grouped, and the chain ends at the other.
pub(crate) fn groups<P: Ord + Copy>(
    planned: &[Ends<P>],
    found: &[Ends<P>],
    cost: impl Fn(P, P, P) -> u32,
) -> Vec<Group> {
    let at = |cables: &[Ends<P>]| {
        let mut at = BTreeMap::new();
        for (index, ends) in cables.iter().enumerate() {
            for end in ends {
                at.entry(*end).or_insert(index);
            }
        }
        at
    };
    let (planned_at, found_at) = (at(planned), at(found));
    let ends = |(is_planned, index): Link| match is_planned {
        true => planned[index],
        false => found[index],
    };
    // Returns the cable of the other list at a port.
    let across = |(is_planned, _): Link, port: P| {
        let at = if is_planned { &found_at } else { &planned_at };
        at.get(&port).map(|index| (!is_planned, *index))
    };
    let mut seen = [vec![false; planned.len()], vec![false; found.len()]];
    let mut take = |(is_planned, index): Link| {
        !std::mem::replace(&mut seen[usize::from(!is_planned)][index], true)
    };
    let all = (0..planned.len()).map(|index| (true, index));
    let mut groups = Vec::new();
    for start in all.chain((0..found.len()).map(|index| (false, index))) {
        if !take(start) {
            continue;
        }
        let [first, mut port] = ends(start);
        let (mut chain, mut closed) = (vec![start], false);
        while let Some(next) = across(chain[chain.len() - 1], port) {
            if next == start && port == first {
                closed = true;
            }
            if !take(next) {
                break;
            }
            port = other(ends(next), port);
            chain.push(next);
        }
        if !closed {
            let mut before = Vec::new();
            let (mut end, mut port) = (start, first);
            while let Some(next) = across(end, port).filter(|next| take(*next)) {
                port = other(ends(next), port);
                before.push(next);
                end = next;
            }
            chain.splice(..0, before.into_iter().rev());
        }
        let price = |one: Link, two: Link| {
            let (plan, now) = if one.0 { (one, two) } else { (two, one) };
            let (plan, now) = (ends(plan), ends(now));
            let fixed = if now.contains(&plan[0]) {
                plan[0]
            } else {
                plan[1]
            };
            cost(fixed, other(plan, fixed), other(now, fixed))
        };
        groups.push(paired(&chain, closed, price));
    }
    groups
}

/// Returns the other end of a cable.
pub(crate) fn other<P: PartialEq + Copy>([one, two]: Ends<P>, end: P) -> P {
    if one == end { two } else { one }
}

/// Pairs the neighbours of a chain.
fn paired(chain: &[Link], closed: bool, price: impl Fn(Link, Link) -> u32) -> Group {
    let len = chain.len();
    // The link that remains alone, or the first link of a closed chain: all pairs follow it or
    // precede it.
    let pairs = |start: usize, end: usize| {
        (start..end)
            .step_by(2)
            .map(|at| (chain[at], chain[(at + 1) % len]))
    };
    let sum = |links: &mut dyn Iterator<Item = (Link, Link)>| -> u32 {
        links.map(|(one, two)| price(one, two)).sum()
    };
    let (mut links, alone): (Vec<_>, _) = if closed {
        let shifted = u32::from(sum(&mut pairs(1, len + 1)) < sum(&mut pairs(0, len))) as usize;
        (pairs(shifted, len + shifted).collect(), None)
    } else if len.is_multiple_of(2) {
        (pairs(0, len).collect(), None)
    } else {
        // The price of the pairs before each candidate, and of those after it.
        let (mut before, mut after) = (0, sum(&mut pairs(1, len)));
        let mut best = (after, 0);
        for at in (2..len).step_by(2) {
            before += price(chain[at - 2], chain[at - 1]);
            after -= price(chain[at - 1], chain[at]);
            best = best.min((before + after, at));
        }
        let alone = best.1;
        let links = pairs(0, alone).chain(pairs(alone + 1, len)).collect();
        (links, Some(chain[alone]))
    };
    for link in &mut links {
        if !link.0.0 {
            *link = (link.1, link.0);
        }
    }
    let index = |wanted: bool| {
        alone
            .filter(|(is_planned, _)| *is_planned == wanted)
            .map(|(_, index)| index)
    };
    Group {
        pairs: links.iter().map(|(plan, now)| (plan.1, now.1)).collect(),
        missing: index(true),
        unplanned: index(false),
        closed,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, VecDeque};

    use super::*;

    /// Returns all ways to cable some of these ports.
    fn matchings_of(ports: &[u8]) -> Vec<Vec<Ends<u8>>> {
        let Some((first, rest)) = ports.split_first() else {
            return vec![Vec::new()];
        };
        let mut found = matchings_of(rest);
        for (at, partner) in rest.iter().enumerate() {
            let left: Vec<_> = [&rest[..at], &rest[at + 1..]].concat();
            for mut more in matchings_of(&left) {
                more.push([*first, *partner]);
                found.push(more);
            }
        }
        found
    }

    type State = Vec<Ends<u8>>;

    fn sorted(mut state: State) -> State {
        state.iter_mut().for_each(|ends| ends.sort_unstable());
        state.sort_unstable();
        state
    }

    fn only(these: &State, others: &State) -> State {
        let only = these.iter().filter(|ends| !others.contains(ends));
        only.copied().collect()
    }

    /// Returns the smallest number of steps from `start` to every state, by a search that knows
    /// nothing of chains. A port may have several cables on the way, so the search can only find
    /// fewer steps than a technician needs.
    fn fewest_steps(start: &State, ports: u8, cables: usize) -> BTreeMap<State, usize> {
        let mut steps = BTreeMap::from([(start.clone(), 0)]);
        let mut queue = VecDeque::from([start.clone()]);
        while let Some(state) = queue.pop_front() {
            let done = steps[&state];
            let mut next = Vec::new();
            for at in 0..state.len() {
                let mut without = state.clone();
                let ends = without.remove(at);
                for stays in ends {
                    for port in (0..ports).filter(|port| *port != stays) {
                        let mut moved = without.clone();
                        moved.push([stays, port]);
                        next.push(moved);
                    }
                }
                next.push(without);
            }
            if state.len() < cables {
                for one in 0..ports {
                    for two in one + 1..ports {
                        let mut more = state.clone();
                        more.push([one, two]);
                        next.push(more);
                    }
                }
            }
            for state in next.into_iter().map(sorted) {
                if !steps.contains_key(&state) {
                    steps.insert(state.clone(), done + 1);
                    queue.push_back(state);
                }
            }
        }
        steps
    }

    fn steps(groups: &[Group]) -> usize {
        let steps = |group: &Group| {
            group.pairs.len()
                + usize::from(group.missing.is_some())
                + usize::from(group.unplanned.is_some())
        };
        groups.iter().map(steps).sum()
    }

    #[test]
    fn no_search_finds_fewer_steps() {
        const PORTS: u8 = 6;
        let all: Vec<_> = matchings_of(&(0..PORTS).collect::<Vec<_>>())
            .into_iter()
            .map(sorted)
            .collect();
        // Ports have no names in a search, so one start with each number of cables is enough.
        for cables in 0..=3 {
            let found: State = (0..cables).map(|n| [2 * n, 2 * n + 1]).collect();
            let fewest = fewest_steps(&found, PORTS, 4);
            for planned in &all {
                let groups = groups(&only(planned, &found), &only(&found, planned), |_, _, _| 0);
                assert_eq!(steps(&groups), fewest[planned], "{found:?} to {planned:?}");
            }
        }
        assert_eq!(all.len(), 76, "all ways to cable six ports");
    }

    #[test]
    fn steps_lead_to_the_plan_for_every_pairing() {
        let all: Vec<_> = matchings_of(&(0..8).collect::<Vec<_>>())
            .into_iter()
            .map(sorted)
            .collect();
        for seed in 0..4000_u64 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (planned, found) = (random.choice(&all), random.choice(&all));
            let (planned, found) = (planned.expect("a matching"), found.expect("a matching"));
            let price = |fixed: u8, from: u8, to: u8| u32::from((fixed ^ from ^ to) & 3);
            let (plan, now) = (only(planned, found), only(found, planned));
            let mut used = BTreeSet::new();
            let mut left: Vec<_> = now.iter().copied().map(Some).collect();
            let mut result = Vec::new();
            for group in groups(&plan, &now, price) {
                for (want, have) in group.pairs {
                    assert!(used.insert(want));
                    let cable = left[have].take().expect("each cable is used once");
                    let fixed = plan[want].into_iter().find(|end| cable.contains(end));
                    result.push([
                        fixed.expect("a common port"),
                        other(plan[want], fixed.expect("a common port")),
                    ]);
                }
                if let Some(want) = group.missing {
                    assert!(used.insert(want));
                    result.push(plan[want]);
                }
                if let Some(have) = group.unplanned {
                    assert!(left[have].take().is_some());
                }
            }
            assert!(left.iter().all(Option::is_none));
            assert_eq!(sorted(result), sorted(plan));
        }
    }

    #[test]
    fn cheapest_pairing_is_chosen() {
        // Ports of two hosts, 1 and 2, and of a leaf switch, 10 and 11.
        let planned = [[1, 10], [2, 11]];
        let is_switch = |port: u8| port >= 10;
        let cost = |fixed: u8, _, _| u32::from(is_switch(fixed));
        let swapped = groups(&planned, &[[1, 11], [2, 10]], cost);
        assert_eq!(swapped.len(), 1);
        assert!(swapped[0].closed);
        let mut pairs = swapped[0].pairs.clone();
        pairs.sort_unstable();
        assert_eq!(pairs, [(0, 0), (1, 1)], "each host keeps its cable");
        // Only one of the swapped cables is there: it stays that of its host.
        for (found, pair, missing) in [([1, 11], (0, 0), 1), ([2, 10], (1, 0), 0)] {
            let group = &groups(&planned, &[found], cost)[0];
            assert_eq!(
                (&group.pairs[..], group.missing),
                (&[pair][..], Some(missing))
            );
        }
    }

    #[test]
    fn two_cables_on_a_port_end_the_chain() {
        let groups = groups(&[[1, 2], [1, 3]], &[[1, 4], [4, 5]], |_, _, _| 0);
        let planned: usize = groups.iter().map(|group| group.pairs.len()).sum();
        assert!(planned <= 2);
        let all: usize = groups
            .iter()
            .map(|group| {
                2 * group.pairs.len() + group.missing.iter().len() + group.unplanned.iter().len()
            })
            .sum();
        assert_eq!(all, 4);
    }
}
