"""Attacks with files: net files, host lists, plans, records. Each attack gets a `Place`."""

import os
import signal
import time

from tools import MIB, net_file, require, zeros_as_zstd

REFUSED = (1, 2)


def gen_host_lists(place):
    """300 lines that stand for 30 million hosts"""
    place.write("net.p", net_file())
    place.write("hosts", "".join(f"h{number}x[1-99999]\n" for number in range(300)))
    place.run("ibnet-gen", "--net", "net.p", "--samplers-file", "hosts").check(REFUSED, 256 * MIB)
    place.run("ibnet-gen", "--net", "net.p", "--samplers", "n[1-999999]x[1-999999]").check(REFUSED, 256 * MIB)


def gen_net_zero(place):
    """net file, name map, samplers file and previous plan without an end"""
    place.write("net.p", net_file())
    known = ["--net", "net.p", "--samplers", "n1"]
    for args in (
        ["--net", "/dev/zero", "--samplers", "n1"],
        ["--net", "net.p", "--samplers-file", "/dev/zero"],
        [*known, "--node-name-map", "/dev/zero"],
        [*known, "--previous", "/dev/zero"],
    ):
        result = place.run("ibnet-gen", *args).check(REFUSED)
        require("it has more than" in result.stderr, f"{args}: {result.stderr[-200:]!r}")


def gen_net_lines(place):
    """net file with two million lines"""
    place.write("net.p", net_file(leaves=1, hosts=1, spines=0) * 1_000_000)
    place.run("ibnet-gen", "--net", "net.p", "--samplers", "n1").check(REFUSED)


def gen_weights_line(place):
    """2 GiB of records without a line feed for --weights"""
    place.write("net.p", net_file())
    with open(place.path("weights"), "wb") as file:
        file.truncate(2048 * MIB)
    place.run("ibnet-gen", "--net", "net.p", "--samplers", "n1", "--weights", "weights").check(REFUSED, 256 * MIB)


def gen_mutated(place):
    """60 net files with random changes"""
    whole = net_file().encode()
    for _ in range(60):
        text = bytearray(whole)
        for _ in range(place.random.choice([1, 5, 50, 500])):
            at = place.random.randrange(len(text))
            change = place.random.randrange(3)
            if change == 0:
                text[at] = place.random.randrange(256)
            elif change == 1:
                del text[at : at + place.random.randrange(1, 40)]
            else:
                text[at:at] = bytes(place.random.randrange(256) for _ in range(place.random.randrange(1, 40)))
        place.write("net.p", bytes(text))
        place.run("ibnet-gen", "--net", "net.p", "--samplers", "n1,n5", "-o", "plan.toml").check((0, 1))


def gen_killed(place):
    """30 kills of ibnet-gen while it writes a plan: the plan is whole"""
    place.write("net.p", net_file(leaves=40, hosts=30, spines=10))
    args = ["--net", "net.p", "--samplers", "n1,n900", "--cap", "2000", "-o", "plan.toml"]
    seconds = place.run("ibnet-gen", *args).check((0,)).seconds
    whole = place.read("plan.toml")
    for _ in range(30):
        process = place.start("ibnet-gen", *args)
        time.sleep(place.random.uniform(0, seconds))
        process.signal(signal.SIGKILL)
        process.wait(20)
        require(place.read("plan.toml") == whole, "the plan is not whole")
    left = [name for name in os.listdir(place.folder.name) if "plan" in name and name != "plan.toml"]
    require(len(left) <= 30, f"more files than kills: {len(left)}")


def sweep_endless_files(place):
    """configuration, plan and net file without an end"""
    place.write("net.p", net_file())
    for args in (["-c", "/dev/zero"], ["--simulate", "net.p", "--assignments", "/dev/zero"], ["--simulate", "/dev/zero"]):
        result = place.run("ibnet-sweep", *args, "--sweeps", "1").check(REFUSED)
        require("it has more than" in result.stderr, f"{args}: {result.stderr[-200:]!r}")


def sweep_mutated_configuration(place):
    """60 configurations with random changes"""
    place.write("net.p", net_file())
    whole = 'simulate = "net.p"\ninterval = "50ms"\nwindow = 8\ngroups = ["extended", "base/10"]\n[metrics]\nlisten = ""\n[[output]]\ntype = "file"\npath = "lines"\n'
    for _ in range(60):
        text = bytearray(whole.encode())
        for _ in range(place.random.choice([1, 2, 10])):
            text[place.random.randrange(len(text))] = place.random.randrange(256)
        place.write("ibnet.toml", bytes(text))
        place.run("ibnet-sweep", "-c", "ibnet.toml", "--sweeps", "1", "--interval", "50ms").check((0, 1, 2))


def recording(place):
    place.write("net.p", net_file())
    args = ["--simulate", "net.p", "--interval", "50ms", "--sweeps", "10", "-o", "lines"]
    place.run("ibnet-sweep", *args).check((0,))
    return place.read("lines")


VIEWS = (["errors"], ["links", "--top", "3"], ["sweeps"], ["latency"], ["job", "--nodes", "n1,n2"])


def view_zeros(place):
    """10 GB of zeros in 320 kB of zstd, for replay and all views"""
    place.write("zeros.jsonl.zst", zeros_as_zstd(10 << 30))
    whole = recording(place)
    require(whole, "no records")
    for args in (["replay", "--speed", "0"], ["errors"]):
        command = [args[0], "zeros.jsonl.zst", "lines", *args[1:]]
        place.run("ibnet-view", *command, seconds=120).check((0, 1), 400 * MIB)


def view_replay_onto_input(place):
    """replay onto a hard link of its input"""
    recording(place)
    os.link(place.path("lines"), place.path("link"))
    size = os.path.getsize(place.path("lines"))
    place.run("ibnet-view", "replay", "lines", "--speed", "0", "-o", "link").check(REFUSED)
    require(os.path.getsize(place.path("lines")) == size, "the input grew")


def view_hostile_records(place):
    """records with long lines, deep nesting, values that are not finite, and invalid UTF-8"""
    good = recording(place)
    hostile = [
        b'{"type":"port","ts":1,"slot":1,"sampler":"a","xmit_gbps":1e308,"rcv_gbps":NaN}',
        b'{"type":"port","ts":18446744073709551615,"slot":18446744073709551615}',
        b'{"type":"sweep","ts":99999999999999999999999}',
        b'{"type":"event","ts":' + b"[" * 100_000,
        b'{"type":"port","ts":1,"node":"' + b"x" * (30 * MIB) + b'"}',
        b"\xff\xfe\x00" * 1000,
        b"",
        b'{"type":"histogram","ts":1,"slot":1,"sampler":"a","kind":"rtt","v2":"' + b"A" * 100_000 + b'"}',
    ]
    place.write("hostile", b"\n".join(hostile) + b"\n" + good)
    for view in VIEWS:
        place.run("ibnet-view", view[0], "hostile", *view[1:]).check((0, 1), 700 * MIB)


def view_many_names(place):
    """200,000 names of samplers and of devices"""
    lines = []
    for number in range(200_000):
        lines.append(f'{{"type":"sweep","ts":{number + 1},"slot":1,"sampler":"s{number}","duration_ns":5,"ports":1,"ok":1}}')
        lines.append(
            f'{{"type":"port","ts":{number + 1},"slot":1,"sampler":"s{number}","guid":"0x{number + 1:016x}","port":1,'
            f'"node":"n{number}","kind":"hca","status":"ok","rtt_ns":1000,"mads":1}}'
        )
    place.write("many", "\n".join(lines) + "\n")
    for view in (["latency"], ["sweeps"], ["errors"]):
        place.run("ibnet-view", view[0], "many", *view[1:]).check((0, 1))


def view_mutated(place):
    """40 recordings with random changes"""
    whole = recording(place)
    for number in range(40):
        text = bytearray(whole)
        for _ in range(place.random.choice([1, 10, 1000])):
            text[place.random.randrange(len(text))] = place.random.randrange(256)
        place.write("mutated", bytes(text))
        view = VIEWS[number % len(VIEWS)]
        place.run("ibnet-view", view[0], "mutated", *view[1:]).check((0, 1), 400 * MIB)


def view_nonsense(place):
    """two million lines that are not records"""
    good = recording(place)
    place.write("nonsense", b"nonsense\n" * 2_000_000 + good)
    for view in VIEWS:
        place.run("ibnet-view", view[0], "nonsense", *view[1:]).check((0, 1), 400 * MIB)


ATTACKS = [
    gen_host_lists,
    gen_net_zero,
    gen_net_lines,
    gen_weights_line,
    gen_mutated,
    gen_killed,
    sweep_endless_files,
    sweep_mutated_configuration,
    view_zeros,
    view_replay_onto_input,
    view_hostile_records,
    view_many_names,
    view_nonsense,
    view_mutated,
]
