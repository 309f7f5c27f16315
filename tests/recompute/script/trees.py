"""`links --tree`: congestion trees, searched by their definition in docs/viewing.md."""

import collections

from errors import Device
from records import SECOND, end, first

WAITS, FULL = 0.1, 0.9
MAX_INTERVALS = 64


class Load:
    """A port in an interval."""

    def __init__(self, peer, used, blocked, seconds, to_host=False, received=None, is_recorded=True):
        self.peer, self.used, self.blocked, self.seconds = peer, used, blocked, seconds
        self.to_host, self.received, self.is_recorded = to_host, received, is_recorded
        self.waits = blocked > WAITS
        self.full = used > FULL and not self.waits


def loads_of(recording, sums, number):
    """The ports with records in an interval, and their peers without: these sent what was received."""
    loads = {}
    for key, port in sorted(recording.ports.items()):
        at = lambda who, kind: sums.get((*who, kind, number), {})
        data, blocked = at(key, "data"), at(key, "blocked")
        if port.peer and (data or blocked):
            other = recording.ports.get(port.peer)
            loads[key] = Load(
                port.peer,
                first(data.get("xmit_utilization"), at(port.peer, "data").get("rcv_utilization"), 0.0),
                first(blocked.get("xmit_blocked"), 0.0),
                max(data.get("xmit_utilization_ns") or 0, blocked.get("xmit_blocked_ns") or 0) / 1e9,
                other is not None and other.kind == "hca",
                data.get("rcv_utilization"),
            )
    silent = {load.peer: (key, load) for key, load in loads.items() if load.peer not in loads and load.received is not None}
    loads |= {peer: Load(key, load.received, 0.0, load.seconds, is_recorded=False) for peer, (key, load) in silent.items()}
    return dict(sorted(loads.items()))


class Tree:
    def __init__(self):
        self.seconds = self.used = self.peak = self.blocked = self.held_up = 0.0
        self.victims = {}  # port: [waits for, depth, seconds, blocked seconds, used seconds]


def intervals(recording):
    """The sums of all intervals, and the length of one in powers of two seconds: a port has at most 64 of them."""
    seconds = collections.defaultdict(set)
    for guid, port, _, second in recording.seconds:
        seconds[guid, port].add(second)
    shift = 0
    while any(len({second >> shift for second in all_}) > MAX_INTERVALS for all_ in seconds.values()):
        shift += 1
    return recording.grouped(lambda key, second: (*key, second >> shift)), shift


class Interval:
    """The roots and the waiting ports of an interval."""

    def __init__(self, loads, is_away):
        self.loads = loads
        self.waiting = collections.defaultdict(list)  # device: the ports that wait for it
        self.roots = {}  # (root, why): its victims, each with the port that it waits for and its depth
        for key, load in loads.items():
            if load.waits:
                self.waiting[load.peer[0]].append(key)
        recorded = {key[0] for key, load in loads.items() if load.is_recorded}
        away = {guid for guid in self.waiting if guid not in recorded and is_away(guid)}
        for key, load in loads.items():
            if load.waits and load.to_host and load.peer[0] not in away:
                self.grow(key, "slow_host")
            elif load.full and any(loads[one].peer != key for one in self.waiting[key[0]]):
                self.grow(key, "full")
        for key in [key for key in self.open() if loads[key].peer[0] in away]:
            self.grow(key, "unreachable")
        self.own = self.reached()

    def reached(self):
        """The roots of each port; a root is its own."""
        reached = collections.defaultdict(set)
        for root, victims in self.roots.items():
            for key in (root[0], *victims):
                reached[key].add(root)
        return reached

    def open(self):
        """The waiting ports without a root."""
        reached = self.reached()
        return [key for key, load in self.loads.items() if load.waits and key not in reached]

    def grow(self, root, why):
        """Follows the waiting ports back from a root, nearest ports first."""
        victims, ring, seen = {}, [root], {root}
        while ring:
            outer = []
            for port in ring:
                for key in self.waiting[port[0]]:
                    if self.loads[key].peer != port and key not in seen:
                        seen.add(key)
                        outer.append(key)
                        victims[key] = port, 1 + (victims[port][1] if port in victims else 0)
            ring = outer
        self.roots[root, why] = victims

    def grow_from(self, neighbours, is_wanted):
        """Adds the roots that ports without a root have in other intervals, if they can be roots here."""
        possible = set()
        for key in self.open():
            for root, why in {root for own in neighbours for root in own.get(key, ()) if is_wanted(root[1])}:
                load = self.loads.get(root)
                is_full = load and not load.waits and load.used > FULL * self.loads[key].blocked
                if load and (is_full if why == "full" else load.waits):
                    possible.add((root, why))
        for root, why in possible:
            self.grow(root, why)

    def complete(self, neighbours):
        """Adds roots of the intervals before and after, if they were used for at least as long as a port waited
        here; then roots of unknown cause. A silent device is a cause only if there is no other one."""
        silent = [root for root in self.roots if root[1] == "unreachable"]
        for root in silent:
            del self.roots[root]
        self.grow_from(neighbours, lambda why: why != "unreachable")
        reached = self.reached()
        for root in silent:
            if root[0] not in reached:
                self.grow(*root)
        self.grow_from(neighbours, lambda why: why == "unreachable")
        busy = [key for key, load in self.loads.items() if load.waits or load.full]
        peer = lambda key: self.loads[key].peer
        for key in [key for key in self.open() if not any(one[0] == peer(key)[0] and one != peer(key) for one in busy)]:
            self.grow(key, "unclear")


def search(recording):
    sums, shift = intervals(recording)
    guids = {key[0] for key in recording.ports} | {port.peer[0] for port in recording.ports.values() if port.peer}
    devices = {guid: Device(recording, guid) for guid in guids}
    found = {}
    for number in sorted({key[3] for key in sums}):
        start, end = (number << shift) * SECOND, (number + 1 << shift) * SECOND

        def is_away(guid):
            away = devices[guid].away()
            return away is not None and max(away[0], start) < min(away[1], end)

        found[number] = Interval(loads_of(recording, sums, number), is_away)
    trees = collections.defaultdict(Tree)
    for number, interval in found.items():
        interval.complete([found[near].own for near in (number - 1, number + 1) if near in found])
        for root, victims in interval.roots.items():
            tree, load = trees[root], interval.loads[root[0]]
            tree.seconds += load.seconds
            tree.used += load.used * load.seconds
            tree.peak = max(tree.peak, load.used)
            tree.blocked += load.blocked * load.seconds
            for key, (waits_for, depth) in victims.items():
                load = interval.loads[key]
                victim = tree.victims.setdefault(key, [waits_for, depth, 0.0, 0.0, 0.0])
                for index, share in ((2, 1.0), (3, load.blocked), (4, load.used)):
                    victim[index] += share * load.seconds
        for key, roots in interval.reached().items():
            for root in roots:
                trees[root].held_up += interval.loads[key].blocked * interval.loads[key].seconds / len(roots)
    return trees


def trees(recording, shown, differences):
    check = lambda what, a, b: differences.check("trees", what, a, b)
    expected = search(recording)
    found = {(end(row["root"]), row["why"]): row for row in shown}
    check("trees", set(found), set(expected))
    for key in set(found) & set(expected):
        row, tree, port = found[key], expected[key], recording.ports.get(key[0])
        is_host = lambda victim: recording.ports[victim].kind == "hca"
        of = port or next(other for other in recording.ports.values() if other.peer == key[0])
        for name, value in {
            "seconds": tree.seconds, "xmit_utilization": tree.used / tree.seconds, "blocked": tree.blocked / tree.seconds,
            "xmit_utilization_peak": tree.peak, "held_up_seconds": tree.held_up, "link": of.link,
            "host_ports": sum(map(is_host, tree.victims)), "switch_ports": sum(not is_host(victim) for victim in tree.victims),
        }.items():
            check(f"{key}: {name}", row[name], value)
        names = (port.node, port.peer) if port else (of.peer_name, of.key)
        check(f"{key}: root", (row["root"]["node"], end(row["to"])), names)
        victims = {end(victim): victim for victim in row["victims"]}
        check(f"{key}: victims", set(victims), set(tree.victims))
        for victim in set(victims) & set(tree.victims):
            waits_for, depth, *sums = tree.victims[victim]
            shown_one = victims[victim]
            check(f"{key}: {victim}: path", (end(shown_one["waits_for"]), shown_one["depth"], shown_one["is_host"]), (waits_for, depth, is_host(victim)))
            for name, value in zip(("seconds", "blocked_seconds", "used_seconds"), sums):
                check(f"{key}: {victim}: {name}", shown_one[name], value)
    weights = [row["held_up_seconds"] for row in shown]
    check("order", weights, sorted(weights, reverse=True))
