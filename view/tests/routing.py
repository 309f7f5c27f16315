#!/usr/bin/env python3
"""Recomputes the results of `ibnet-view routing` and `path`, pair by pair, without code of ibnet.

    routing.py NET ROUTES ROUTING.json [PATH.json ...]

NET is a file of `ibnetdiscover -p`. Exits with an error at the first difference.
"""

import json
import re
import sys
from collections import Counter, defaultdict, deque

LINE = re.compile(
    r"(CA|SW)\s+(\d+)\s+(\d+) (0x\w+) \S+ \S+(?: - (CA|SW)\s+(\d+)\s+(\d+) (0x\w+) )?")


def read_net(path):
    """Returns the kind and LID of each device, and the port at the other end of each port."""
    devices, peers = {}, {}
    for line in open(path):
        found = LINE.match(line)
        if not found:
            continue
        kind, lid, port, guid, peer_kind, peer_lid, peer_port, peer = found.groups()
        devices[guid] = (kind, int(lid))
        if peer:
            devices.setdefault(peer, (peer_kind, int(peer_lid)))
            peers[guid, int(port)] = (peer, int(peer_port))
            peers.setdefault((peer, int(peer_port)), (guid, int(port)))
    return devices, peers


def read_routes(path):
    tables, table = {}, None
    for line in open(path):
        head = re.search(r"(?:ucast_routes: Switch|^Unicast lids .* guid) (0x\w+)", line)
        entry = re.match(r"\s*0x(\w+)[ :]+(\d+)", line)
        if head:
            table = tables.setdefault(head[1], {})
        elif entry and int(entry[2]) < 255:
            table[int(entry[1], 16)] = int(entry[2])
    return tables


def walk(devices, peers, tables, sender, receiver):
    """Returns the sending ports of a path, and the fault that ends it: None at the receiver."""
    path, seen = [], {}
    at = sender
    while at != receiver:
        if devices[at][0] == "CA":
            port, = (port for port in range(1, 9) if (at, port) in peers)
            assert not path
        elif at in seen:
            loop = path[seen[at]:]
            return path, ("forwarding_loop",) + min(loop)
        else:
            seen[at] = len(path)
            if at not in tables:
                return path, ("no_table", at, 0)
            port = tables[at].get(devices[receiver][1])
            if port is None:
                return path, ("no_route", at, 0)
            if port > 0 and (at, port) not in peers:
                return path, ("dead_port", at, port)
            if port == 0 or devices[peers[at, port][0]][0] == "CA" and peers[at, port][0] != receiver:
                return path, ("wrong_host", at, port)
        path.append((at, port))
        at = peers[at, port][0]
    return path, None


def tiers(devices, peers):
    """Returns the tier of each switch that has a connection to a host."""
    beside = defaultdict(set)
    for (guid, _), (peer, _) in peers.items():
        beside[guid].add(peer)
    found = {guid: 0 for guid, (kind, _) in devices.items() if kind == "CA"}
    queue = deque(found)
    while queue:
        at = queue.popleft()
        for other in beside[at]:
            if other not in found and devices[other][0] == "SW":
                found[other] = found[at] + 1
                queue.append(other)
    return found


def has_cycle(waits):
    """Removes ports that wait for none until none is left; returns whether ports remain."""
    left = set(waits)
    while True:
        waiting = {one for one, _ in left}
        rest = {(one, other) for one, other in left if other in waiting}
        if len(rest) == len(left):
            return bool(left)
        left = rest


def equal(what, found, expected):
    if found != expected:
        sys.exit(f"{what}: found {found}, expected {expected}")


def main():
    net, routes, result, *path_files = sys.argv[1:]
    devices, peers = read_net(net)
    tables = read_routes(routes)
    rows = defaultdict(list)
    for row in json.load(open(result))["rows"]:
        rows[row["what"]].append(row)
    at = lambda row: (row["at"]["guid"], row["at"]["port"])
    hosts = [guid for (guid, _), (peer, _) in peers.items()
             if devices[guid][0] == "CA" and devices[peer][0] == "SW"]

    counts, waits, lost, lost_to = Counter(), set(), Counter(), defaultdict(set)
    for receiver in hosts:
        for sender in hosts:
            if sender == receiver:
                continue
            path, fault = walk(devices, peers, tables, sender, receiver)
            if fault:
                lost[fault] += 1
                lost_to[fault].add(receiver)
                continue
            counts.update(path)
            waits.update(zip(path[1:], path[2:]))

    pairs, = rows["pairs"]
    equal("pairs", pairs["pairs"], len(hosts) * (len(hosts) - 1))
    equal("lost pairs", pairs["lost_pairs"], sum(lost.values()))

    dead = Counter()
    lids = [lid for _, lid in devices.values()]
    for switch, table in tables.items():
        for lid in lids:
            port = table.get(lid, 0)
            if port > 0 and (switch, port) not in peers:
                dead["dead_port", switch, port] += 1
    expected = {fault: (len(lost_to[fault]), lost[fault]) for fault in lost}
    for fault, count in dead.items():
        expected[fault] = (count, lost[fault])
    found = {(what,) + at(row): (row["lids"], row["lost_pairs"])
             for what in ("dead_port", "no_route", "no_table", "forwarding_loop", "wrong_host")
             for row in rows[what]}
    equal("faults", found, expected)

    tier, ups = tiers(devices, peers), defaultdict(list)
    for (guid, port), (peer, _) in peers.items():
        if devices[guid][0] == devices[peer][0] == "SW" and tier[peer] >= tier[guid]:
            ups[guid].append(port)
    equal("switches with uplinks", sorted(row["at"]["guid"] for row in rows["uplinks"]), sorted(ups))
    for row in rows["uplinks"]:
        switch = row["at"]["guid"]
        paths = [counts[switch, port] for port in ups[switch]]
        equal(f"uplinks of {switch}", (row["links"], row["most"], counts[at(row)]),
              (len(paths), max(paths), max(paths)))
        if abs(row["mean"] - sum(paths) / len(paths)) > 1e-9:
            sys.exit(f"mean of {switch}: {row['mean']}")
    unequal = {}
    for switch, ports in ups.items():
        groups = Counter(peers[switch, port][0] for port in ports)
        if min(groups.values()) < max(groups.values()):
            unequal[switch] = (min(groups.values()), max(groups.values()))
    equal("unequal links", {row["at"]["guid"]: (row["links"], row["most"])
                            for row in rows["unequal_links"]}, unequal)

    loops = rows["possible_credit_loop"]
    equal("credit loops", bool(loops), has_cycle(waits))
    for row in loops:
        cycle = [(port["guid"], port["port"]) for port in row["cycle"]]
        for pair in zip(cycle, cycle[1:] + cycle[:1]):
            if pair not in waits:
                sys.exit(f"no path has these ports one after the other: {pair}")

    for name in path_files:
        path = json.load(open(name))["rows"]
        ports, fault = walk(devices, peers, tables, path[0]["sender"]["guid"],
                            path[0]["receiver"]["guid"])
        equal("path", [(row["from"]["guid"], row["from"]["port"]) for row in path], ports)
        equal("end of the path", fault, None)
    print(f"{len(hosts)} hosts, {sum(lost.values())} lost pairs, {len(expected)} faults, "
          f"{len(loops)} loops, {len(path_files)} paths")


main()
