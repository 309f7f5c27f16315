"""`links --tree`: congestion trees, searched by the rules of docs/congestion.md."""

import collections

from errors import Device
from records import SECOND, end, first

WAITS, FULL = 0.1, 0.75
PASSES = 0.02  # blocked for more: can pass congestion on
MORE, ALWAYS, HARDLY_BLOCKED = 0.05, 0.99, 0.05
COVERS = 0.8
LESS, SHORT_BLOCKED, SHORT_USED, LONGEST = 0.08, 0.4, 0.5, 8
MAX_INTERVALS = 64


class Load:
    """A port in an interval."""

    def __init__(self, peer, used, blocked, seconds, to_host=False, received=None, is_recorded=True):
        self.peer, self.used, self.blocked, self.seconds = peer, used, blocked, seconds
        self.to_host, self.received, self.is_recorded = to_host, received, is_recorded
        self.waits = blocked > WAITS
        self.full, self.active = used > FULL, used + blocked


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
        self.sure, self.beyond = collections.Counter(), 0
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
        self.held = collections.defaultdict(set)  # device: the ports that can wait for its ports
        self.roots = {}  # (root, why): its victims, each with the port that it waits for and its depth
        for key, load in loads.items():
            if load.blocked > PASSES:
                self.held[load.peer[0]].add(key)
        recorded = {key[0] for key, load in loads.items() if load.is_recorded}
        away = {guid for guid in self.held if guid not in recorded and is_away(guid)}
        for key, load in loads.items():
            if load.waits and load.to_host:
                if load.peer[0] not in away:
                    self.grow(key, "slow_host")
            elif self.confidence(key):
                self.grow(key, "full")
        self.add_short()
        for key in [key for key in self.open() if loads[key].peer[0] in away]:
            self.grow(key, "unreachable")
        self.own = self.reached()

    def can_wait_for(self, key, other):
        return not self.loads[key].to_host and self.loads[key].peer != other

    def onward(self, key):
        """The ports through which the packets of a port can leave the switch at its end."""
        return [one for one in self.loads if one[0] == self.loads[key].peer[0] and self.can_wait_for(key, one)]

    def confidence(self, key):
        """How surely a port is full and others wait for it, or None."""
        load = self.loads[key]
        if not load.full or not any(self.can_wait_for(one, key) for one in self.held.get(key[0], ())):
            return None
        if max((self.loads[one].used for one in self.onward(key)), default=0.0) <= load.used + MORE:
            return "high" if load.blocked <= HARDLY_BLOCKED else "medium"
        return "medium" if load.active > ALWAYS else None

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
        """Follows the waiting ports back from a root, nearest ports first. A root that does not wait has a
        victim that does, and other victims are on the paths of those."""
        found, ring, seen = {}, [root], {root}
        while ring:
            outer = []
            for port in ring:
                for key in sorted(self.held.get(port[0], ())):
                    is_covered = self.loads[port].active >= COVERS * self.loads[key].blocked
                    if self.can_wait_for(key, port) and is_covered and key not in seen:
                        seen.add(key)
                        outer.append(key)
                        found[key] = port, 1 + (found[port][1] if port in found else 0)
            ring = outer
        on_path = set()
        for key in found:
            if self.loads[key].waits:
                while key != root and key not in on_path:
                    on_path.add(key)
                    key = found[key][0]
        if on_path or self.loads[root].waits:
            self.roots[root, why] = {key: value for key, value in found.items() if key in on_path}

    def add_short(self):
        """Roots of congestion that is shorter than the interval: follows each waiting port over the busiest."""
        blocked, passed = collections.defaultdict(float), set()
        for key in self.open():
            path, at = [], key
            while len(path) < LONGEST:
                others = self.onward(at)
                if not others:
                    break
                busiest = max(others, key=lambda one: (self.loads[one].active, one))
                load = self.loads[busiest]
                if path and (self.loads[at].blocked == 0.0 or load.used < self.loads[at].used - LESS):
                    break
                if not path and load.active < COVERS * self.loads[key].blocked:
                    break
                path.append(busiest)
                at = busiest
            if path and not self.loads[path[-1]].waits:
                blocked[path[-1]] += self.loads[key].blocked
                passed.update(path)
        for key in passed:
            self.held[self.loads[key].peer[0]].add(key)
        for key, sum_ in blocked.items():
            if sum_ >= SHORT_BLOCKED or self.loads[key].used > SHORT_USED:
                self.grow(key, "full")

    def complete(self, neighbours):
        """Adds the silent devices of the intervals before and after, then roots of unknown cause."""
        silent = {root for key in self.open() for own in neighbours for root in own.get(key, ()) if root[1] == "unreachable"}
        for root, why in silent:
            if root in self.loads and self.loads[root].waits:
                self.grow(root, why)
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
            if root[1] in ("full", "slow_host"):
                sure = "high" if root[1] == "slow_host" else interval.confidence(root[0]) or "low"
                tree.sure[sure] += load.seconds
            tree.beyond = max(tree.beyond, sum(interval.loads[one].is_recorded for one in interval.onward(root[0])))
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
            "xmit_utilization_peak": tree.peak, "ports_beyond": tree.beyond, "held_up_seconds": tree.held_up, "link": of.link,
            "host_ports": sum(map(is_host, tree.victims)), "switch_ports": sum(not is_host(victim) for victim in tree.victims),
        }.items():
            check(f"{key}: {name}", row[name], value)
        # Two confidences can have lasted for equally long.
        surest = {sure for sure, seconds in tree.sure.items() if seconds == max(tree.sure.values())}
        check(f"{key}: confidence", row["confidence"] in (surest or {None}), True)
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
