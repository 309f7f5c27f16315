"""Attacks on an archive: damage, wrong clocks."""

import concurrent.futures
import json
import os
import re
import shutil
import time

from on_files import recording
from tools import FakeClock, require

HOUR = 3600

# Together they read all tables of the records.
READERS = (
    ["replay", "--keep-times", "--speed", "0"],
    ["links", "--format", "json"],
    ["errors", "--format", "json"],
    ["sweeps", "--format", "json"],
    ["heatmap", "-m", "port_xmit_data_bytes,errors", "--format", "json"],
)


def archive_damage(place):
    """300 damages for each --depth, one bit or 16 zeros each: a read gives the same answer or an error"""
    place.write("lines", recording(place))
    place.run("ibnet-view", "pack", "lines", "-o", "archive").check((0,))
    answers = [place.run("ibnet-view", reader[0], "archive", *reader[1:]).check((0,)).stdout for reader in READERS]
    files = [os.path.join(folder, name) for folder, _, names in os.walk(place.path("archive")) for name in names if name.endswith(".parquet")]
    # Every file gets a share; every octet of a file is as likely as another one.
    damages = [(files[number % len(files)], place.random.random(), place.random.randrange(9)) for number in range(300 * place.depth)]

    def damaged(number):
        path, share, bit = damages[number]
        copy = f"{place.path('copy')}{number}"
        shutil.copytree(place.path("archive"), copy)
        with open(path.replace(place.path("archive"), copy, 1), "r+b") as file:
            at = int(os.path.getsize(path) * share)
            file.seek(at)
            old = file.read(16 if bit == 8 else 1)
            file.seek(at)
            file.write(bytes(len(old)) if bit == 8 else bytes([old[0] ^ 1 << bit]))
        reader = number % len(READERS)
        result = place.run("ibnet-view", READERS[reader][0], copy, *READERS[reader][1:])
        what = f"{os.path.basename(path)} octet {at} {'16 zeros' if bit == 8 else f'bit {bit}'}: {READERS[reader][0]}"
        require(result.code in (0, 1) and "panicked" not in result.stderr, f"{what}: exit code {result.code}: {result.stderr[-300:]!r}")
        require(result.code == 1 or result.stdout == answers[reader], f"{what}: other data and exit code 0")
        shutil.rmtree(copy)
        return result.code

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        codes = list(pool.map(damaged, range(len(damages))))
    require(sum(codes) > len(codes) // 3, f"only {sum(codes)} of {len(codes)} damages are found")
    return f"{sum(codes)} errors, {len(codes) - sum(codes)} without effect"


def lines_of(hours, sampler):
    """One record for each hour, given in seconds since 1970."""
    for number, hour in enumerate(hours):
        port = {"guid": "0x0000000000000007", "port": 1, "lid": 1, "node": "n1 mlx5_0", "kind": "hca", "status": "ok", "rtt_ns": 1000, "mads": 1}
        yield json.dumps({"type": "port", "ts": hour * 10**9 + number, "slot": hour, "sampler": sampler, **port, "port_xmit_data_bytes": number})


def archive_wrong_clock(place):
    """retention and packing with clocks that are wrong by hours to ten years: no record is lost, few hours are removed"""
    clock = FakeClock(place)
    # Each hour is a file that is written to the disk: slow on a loaded machine.
    pack = lambda *args, env=None: place.run("ibnet-view", "pack", *args, env=env, seconds=600)
    now = int(time.time()) // HOUR * HOUR
    hours = [now - number * HOUR for number in range(70)]
    place.write("lines", "\n".join(lines_of(hours, "right")) + "\n")
    pack("lines", "-o", "archive").check((0,))
    replayed = lambda: place.run("ibnet-view", "replay", "--keep-times", "--speed", "0", "archive").check((0,)).stdout
    held = lambda: {int(found) // 10**9 // HOUR * HOUR for found in re.findall(r'"ts":([0-9]+)', replayed())}
    require(held() == set(hours), "the archive does not have all hours")
    due = place.random.choice([5, 24, 48])
    right = {hour for hour in hours if hour > now - (due - 1) * HOUR}
    ten_years = 10 * 365 * 24 * HOUR
    offsets = place.random.sample([ten_years, -ten_years, 40 * 24 * HOUR, -HOUR, 5 * HOUR], 5)

    def retain(offset, is_right):
        """Removes what is too old, by a host with this clock."""
        clock.set(offset)
        before = held()
        pack("-o", "archive", "--keep-age", f"ports={due}h", env=clock.env).check((0,))
        after = held()
        removed = len(before - after)
        require(not is_right or right <= after, f"clock {offset:+} s, age {due} h: {len(right - after)} hours were removed that are newer")
        require(removed <= max(48, len(before) // 10), f"clock {offset:+} s: one run removed {removed} hours")

    # The clock of the host is wrong, and no record is.
    for offset in offsets:
        retain(offset, True)
    # Records of a sampler are wrong, and the clock of the host is not.
    for offset in offsets:
        clock.set(0)
        name = f"wrong{offset}"
        place.write(name, "\n".join(lines_of([now + offset], name)) + "\n")
        packed = pack(name, "-o", "archive", env=clock.env).check((0,))
        is_told = "expired" in packed.stdout + packed.stderr
        require(now + offset in held() or is_told, f"records of {offset:+} s: the hour is missing without a word")
        retain(0, True)
    # The total: the newest right hour stays, although hours of the future are in the archive.
    clock.set(0)
    for _ in range(8):
        pack("-o", "archive", "--keep-total", "ports=1kB", env=clock.env).check((0,))
    require(now in held(), "--keep-total removed the newest hour")
    place.write("later", "\n".join(lines_of([now], "later")) + "\n")
    pack("later", "-o", "archive").check((0,))
    require('"sampler":"later"' in replayed(), "a record of the present hour was not packed")
    # Both are wrong by the same time: the number of hours of a run is the only bound.
    for offset in offsets:
        retain(offset, False)


ATTACKS = [archive_damage, archive_wrong_clock]
