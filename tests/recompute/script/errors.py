"""`errors`: devices that do not answer, faults of links, and increases of counters."""

import collections

from records import ERRORS, TOP, end, rate

THRESHOLD = {"port_rcv_switch_relay_errors": 100}
ANSWERED = ("ok", "late", "mad_error", "bad_reply")


class Device:
    """The evidence about a device: records of its ports, and events."""

    def __init__(self, recording, guid):
        self.guid = guid
        self.ports = {key[1]: port for key, port in recording.ports.items() if key[0] == guid}
        some = next(iter(self.ports.values()), None)
        self.node, self.kind = (some.node, some.kind) if some else ("", None)
        events = [event for event in recording.all_events if event["guid"] == guid]
        lost = [event["ts"] for event in events if event["event"] == "unreachable"]
        found = [event["ts"] for event in events if event["event"] == "reachable"]
        stamped = [(port.stamp(r), r) for port in self.ports.values() for r in port.records]
        # A reply proves for three quarters of its interval that the device answers: a second sampler may
        # not reach it half an interval later.
        self.answered = max([ts + (r["dt_ns"] or 0) // 4 * 3 for ts, r in stamped if r["status"] in (*ANSWERED, "down")] + found, default=None)
        after = lambda times: [t for t in times if self.answered is None or t > self.answered]
        gone = [ts for ts, r in stamped if r["status"] == "unreachable"] + lost
        silent = [ts for ts, r in stamped if r["status"] in ("unreachable", "timeout")]
        wrong = [ts for ts, r in stamped if r["status"] == "wrong_device"]
        if self.answered is None and not gone:
            self.is_unreachable = bool(silent) and not wrong
        else:
            self.is_unreachable = bool(after(gone))
        self.gone = gone
        self.fault = None  # (what, since, began in the range)
        if self.is_unreachable:
            self.fault = ("unreachable", min(after(silent + lost)), self.answered is not None)
        elif wrong and after([max(wrong)]):
            self.fault = ("wrong_device", min(wrong), self.answered is not None)
        elif gone:
            self.fault = ("was_unreachable", min(gone), True)

    def away(self):
        """The time in which the device did not answer."""
        if self.is_unreachable:
            return self.fault[1], TOP
        return (min(self.gone), max(self.gone)) if self.gone else None

    def port(self):
        """The number of the port that has the GUID of the device."""
        return 0 if self.kind in ("switch", None) else min(self.ports)


def behind(recording, devices):
    """The unreachable devices behind each unreachable device that has a reachable neighbour. In a part of the
    fabric without any, the first switch of this part takes its place."""
    dead = {guid for guid, device in devices.items() if device.is_unreachable}
    neighbours = collections.defaultdict(set)
    for key, port in recording.ports.items():
        if port.peer:
            neighbours[key[0]].add(port.peer[0])
            neighbours[port.peer[0]].add(key[0])
    # Switches come before hosts. A device is behind the nearest one.
    in_order = sorted(dead, key=lambda guid: (devices[guid].kind != "switch", guid))
    ring = [guid for guid in in_order if neighbours[guid] - dead or not neighbours[guid]]
    owner, groups = {guid: guid for guid in ring}, {guid: [] for guid in ring}
    while ring or dead - set(owner):
        outer = []
        if not ring:
            ring = [next(guid for guid in in_order if guid not in owner)]
            owner[ring[0]], groups[ring[0]] = ring[0], []
        for guid in ring:
            for peer in sorted(neighbours[guid] & dead):
                if peer not in owner:
                    owner[peer] = owner[guid]
                    groups[owner[guid]].append(peer)
                    outer.append(peer)
        ring = outer
    return groups


class Link:
    """The events of a link as seen from one of its ports, and its rates."""

    def __init__(self, port):
        times = lambda *names: [event["ts"] for event in port.events if event["event"] in names]
        states = [(event["ts"], event["event"]) for event in port.events if event["event"] in ("link_down", "link_up")]
        up = max((port.stamp(r) + (r["dt_ns"] or 0) // 4 * 3 for r in port.records if r["status"] in ANSWERED), default=0)
        self.down_since = min((port.stamp(r) for r in port.records if r["status"] == "down" and port.stamp(r) > up), default=None)
        self.is_down = bool(states) and max(states)[1] == "link_down"
        counted = port.change.get("link_downed_counter")
        self.downs = max(len(times("link_down")), counted.increase if counted else 0)
        self.changes = len(times("link_change"))
        self.last_state = max(states)[0] if states else None
        self.last_change = max(times("link_change"), default=None)
        words = [word for event in port.events if event["event"] == "link_change" for word in (event["detail"] or "").replace(",", " ").split()]
        rates = [rate(link) for link in [*(r["link"] for r in port.records), *words]]
        self.now, self.fastest = rate(port.link), max((r for r in rates if r), default=0)
        self.mtu = port.mtu


def link_fault(link, peer):
    """The worst fault of a link, and its start if the records show it."""
    latest = max((t for t in (link.last_change, link.last_state) if t is not None), default=None)
    if link.is_down or link.down_since is not None:
        return "link_down", link.last_state if link.last_state is not None else link.down_since
    if link.downs > 1 or link.changes > 2:
        return "flapping", latest
    if link.now is not None and link.now < link.fastest:
        return "degraded", latest
    both = [(link.now, peer.now), (link.mtu, peer.mtu)] if peer else []
    if any(own is not None and other is not None and own < other for own, other in both):
        return "ends_differ", latest
    return ("was_down", latest) if link.downs == 1 else None


def errors(recording, shown, differences):
    check = lambda what, a, b: differences.check("errors", what, a, b)
    ports = recording.ports
    guids = {key[0] for key in ports} | {event["guid"] for event in recording.all_events if event["event"] in ("unreachable", "reachable")}
    devices = {guid: Device(recording, guid) for guid in guids}
    links = {key: Link(port) for key, port in ports.items()}
    groups = behind(recording, devices)
    expected = {}
    of_device = {"peer": None, "link": None, "increase": None, "is_lower_bound": False, "rate": None, "value": None}
    for guid, device in devices.items():
        if device.fault and (not device.is_unreachable or guid in groups):
            what, since, began = device.fault
            others = groups.get(guid, []) if device.is_unreachable else []
            row = {"node": device.node, "since_ns": since, "began_in_range": began, "devices_behind": len(others), "behind": set(others)}
            expected[guid, device.port(), what] = of_device | row
    for key, port in ports.items():
        of_port = {"node": port.node, "link": port.link, "peer": port.peer and (*port.peer, port.peer_name), "devices_behind": 0, "behind": set()}
        at_dead = any(guid in devices and devices[guid].is_unreachable for guid in (key[0], port.peer and port.peer[0]))
        fault = link_fault(links[key], links.get(port.peer))
        if fault and not at_dead:
            since = port.first if fault[1] is None else fault[1]
            began = None if fault[1] is None else True
            expected[*key, fault[0]] = of_device | of_port | {"since_ns": since, "began_in_range": began}
        for name, change in port.change.items():
            if change.increase > THRESHOLD.get(name, 0) and not (at_dead and name == "link_downed_counter"):
                seconds = (port.last - port.first) / 10**9
                rest = {"increase": change.increase, "is_lower_bound": change.is_lower_bound, "value": change.value}
                rest |= {"rate": change.increase / seconds if seconds else None, "since_ns": port.first}
                expected[*key, name] = of_port | rest | {"began_in_range": None}
    found = {(*end(row), row["what"]): row for row in shown}
    check("rows", set(found), set(expected))
    check("number of rows", len(shown), len(expected))
    for key in set(found) & set(expected):
        row = dict(found[key], behind={other["guid"] for other in found[key]["behind"]})
        row["peer"] = row["peer"] and (*end(row["peer"]), row["peer"]["node"])
        for name, value in expected[key].items():
            check(f"{key}: {name}", row[name], value)
    kinds = [0 if row["what"] in ("unreachable", "wrong_device", "was_unreachable") else 1 for row in shown]
    check("devices first", kinds, sorted(kinds))
    dead = [devices[row["guid"]].kind != "switch" for row in shown if row["what"] == "unreachable"]
    check("switches before hosts", dead, sorted(dead))
