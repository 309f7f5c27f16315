#!/usr/bin/env python3
"""Checks the records of the random faults with SQL. It shares no code with ibnet.

exact.py FOLDER    checks the folder of `run --keep FOLDER` again
"""

import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from tools import Failed, Skipped, require


def open_duckdb():
    try:
        import duckdb
    except ImportError:
        raise Skipped("Python has no module duckdb: run `make tools` and out/tools/python/bin/python") from None
    return duckdb.connect()


def identity(record):
    """Text that is equal in all outputs for the same record. None for records of one output only."""
    kind = record["type"]
    if kind == "start" or record.get("event") == "lines_lost":
        return None
    if kind == "port":
        return f"port {record['slot']} {record['guid']} {record['port']}"
    if kind == "sweep":
        return f"sweep {record['slot']}"
    return json.dumps(record, sort_keys=True)


def rows(folder, output):
    """Yields a row for each record of an output. A life is a process; a part ends at a clock step."""
    sampler, name = output["sampler"], output["name"]
    pid, life, part, position, torn = None, -1, 0, 0, 0
    with open(os.path.join(folder, output["file"]), "rb") as file:
        for line in file:
            position += 1
            try:
                record = json.loads(line)
            except ValueError:
                torn += 1
                continue
            kind, event = record["type"], record.get("event")
            if kind == "start" and record["pid"] != pid:
                pid, life = record["pid"], life + 1
            part += event == "clock_step"
            lost = int(record["detail"].split()[0]) if event == "lines_lost" else 0
            yield (
                sampler, name, life, part, position, kind, record["ts"], record["slot"], record.get("guid"), record.get("port"),
                record.get("ports"), record.get("slots_missed"), lost, identity(record), record.get("pid"),
            )  # fmt: skip
    output["torn"] = torn


COLUMNS = """sampler VARCHAR, output VARCHAR, life INT, part INT, position BIGINT, kind VARCHAR, ts BIGINT, slot BIGINT,
    guid VARCHAR, port INT, ports INT, missed BIGINT, lost BIGINT, identity VARCHAR, pid INT"""


def load(database, folder, outputs):
    database.execute(f"CREATE TABLE record ({COLUMNS})")
    for output in outputs:
        path = os.path.join(folder, "staged.jsonl")
        names = [column.split()[0] for column in COLUMNS.split(",")]
        with open(path, "w", encoding="utf-8") as staged:
            for row in rows(folder, output):
                staged.write(json.dumps(dict(zip(names, row))) + "\n")
        types = ", ".join(f"{name}: '{kind}'" for name, kind in (column.split() for column in COLUMNS.split(",")))
        database.execute(f"INSERT INTO record SELECT * FROM read_json('{path}', format = 'newline_delimited', columns = {{{types}}})")
        os.unlink(path)


def by_time(database, sampler, output):
    """Assigns the records of a message stream to processes by their times: messages have no order."""
    database.execute(
        """UPDATE record SET life = (
             SELECT max(life) FROM (SELECT life, min(ts) AS begin FROM record
               WHERE sampler = $1 AND output = 'lines' AND kind = 'start' GROUP BY life)
             WHERE begin <= record.ts)
           WHERE sampler = $1 AND output = $2""",
        [sampler, output],
    )


def none(database, what, query, parameters=None):
    found = database.execute(query, parameters or []).fetchall()
    require(not found, f"{what}: {len(found)} cases, first {found[0] if found else None}")


def check(folder):
    """Checks all outputs, and that the check detects errors. Returns a sentence with the figures."""
    with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    database = open_duckdb()
    load(database, folder, manifest["outputs"])
    for output in manifest["outputs"]:
        if output["name"] == "nats":
            by_time(database, output["sampler"], "nats")
    database.execute("CREATE TABLE process (sampler VARCHAR, pid INT, was_killed BOOLEAN, dropped BIGINT)")
    for process in manifest["processes"]:
        database.execute("INSERT INTO process VALUES (?, ?, ?, ?)", [process[key] for key in ("sampler", "pid", "was_killed", "dropped")])
    database.execute(
        """CREATE TABLE life AS SELECT DISTINCT sampler, life, was_killed, dropped
           FROM record JOIN process USING (sampler, pid) WHERE output = 'lines' AND kind = 'start'"""
    )

    figures = verify(database, manifest)
    for output in manifest["outputs"]:
        check_itself(database, manifest, output)
    return figures


def verify(database, manifest):
    """Checks the loaded records. Returns a sentence with the figures."""
    none(
        database,
        "a port is in a slot twice",
        """SELECT sampler, output, life, part, slot, guid, port, count(*) FROM record
           WHERE kind = 'port' GROUP BY ALL HAVING count(*) > 1""",
    )
    # The file that is never full has every record of every slot that ended.
    database.execute(
        """CREATE OR REPLACE TABLE slot AS SELECT sampler, life, part, slot,
             count(*) FILTER (kind = 'port') AS found, max(ports) FILTER (kind = 'sweep') AS ports,
             max(missed) FILTER (kind = 'sweep') AS missed, min(position) AS position
           FROM record WHERE output = 'lines' AND kind IN ('port', 'sweep') GROUP BY ALL"""
    )
    none(database, "a slot has not all ports", "SELECT * FROM slot WHERE ports IS NOT NULL AND found <> ports")
    none(
        database,
        "a slot did not end, and it is not the last one of a killed process",
        """SELECT slot.* FROM slot JOIN life USING (sampler, life)
           WHERE ports IS NULL AND NOT (was_killed AND position =
             (SELECT max(position) FROM slot AS other WHERE other.sampler = slot.sampler AND other.life = slot.life))""",
    )
    none(
        database,
        "a slot is missing and not reported",
        """SELECT * FROM (SELECT *, slot - lag(slot) OVER (PARTITION BY sampler, life, part ORDER BY position) - 1 AS between
             FROM slot WHERE ports IS NOT NULL) WHERE between <> missed""",
    )
    # The other outputs have the same records, except for the reported ones.
    compared = []
    for output in manifest["outputs"]:
        sampler, name = output["sampler"], output["name"]
        if name == "lines":
            continue
        database.execute(
            """CREATE OR REPLACE TABLE compared AS SELECT
                 coalesce(a.life, b.life) AS life, a.position AS position, b.position AS there, a.identity AS known, b.identity AS identity,
                 coalesce(a.slot, b.slot) AS slot
               FROM (SELECT * FROM record WHERE sampler = $1 AND output = 'lines' AND identity IS NOT NULL) a
               FULL JOIN (SELECT * FROM record WHERE sampler = $1 AND output = $2 AND identity IS NOT NULL) b
               ON a.life = b.life AND a.identity = b.identity""",
            [sampler, name],
        )
        none(
            database,
            f"{name} has a record that was not written",
            """SELECT * FROM compared WHERE known IS NULL
               AND slot < (SELECT max(slot) FROM record WHERE sampler = $1 AND output = 'lines' AND record.life = compared.life)""",
            [sampler],
        )
        database.execute(
            """CREATE OR REPLACE TABLE sums AS SELECT life, was_killed, dropped,
                 count(*) FILTER (identity IS NULL AND position < last) AS missing,
                 count(*) FILTER (identity IS NULL AND (last IS NULL OR position > last)) AS at_the_end,
                 (SELECT coalesce(sum(lost), 0) FROM record r WHERE r.sampler = $1 AND r.output = $2 AND r.life = c.life) AS told
               FROM (SELECT *, max(position) FILTER (identity IS NOT NULL) OVER (PARTITION BY life) AS last FROM compared) c
               JOIN (SELECT * FROM life WHERE sampler = $1) USING (life) GROUP BY ALL""",
            [sampler, name],
        )
        none(database, f"{name}: records are missing and not reported", "SELECT * FROM sums WHERE missing <> told")
        none(
            database,
            f"{name}: records are missing at a clean end and not reported",
            "SELECT * FROM sums WHERE NOT was_killed AND at_the_end > dropped",
        )
        told, end, killed = database.execute(
            """SELECT coalesce(sum(told), 0), coalesce(sum(at_the_end) FILTER (NOT was_killed), 0),
               coalesce(sum(at_the_end) FILTER (was_killed), 0) FROM sums"""
        ).fetchone()
        present = database.execute("SELECT count(*) FROM compared WHERE identity IS NOT NULL").fetchone()[0]
        compared.append(
            f"{name}: {present} records, {told} lost and reported, {end} dropped at clean ends and reported, "
            f"{killed} lost in the queues of killed processes, {output['torn']} torn lines"
        )
    lives, killed = database.execute("SELECT count(*), count(*) FILTER (was_killed) FROM life").fetchone()
    slots, missed = database.execute("SELECT count(*), sum(missed) FROM slot WHERE ports IS NOT NULL").fetchone()
    ports = database.execute("SELECT count(*) FROM record WHERE output = 'lines' AND kind = 'port'").fetchone()[0]
    torn = sum(output["torn"] for output in manifest["outputs"] if output["name"] == "lines")
    faults = ", ".join(f"{count} {name}" for name, count in sorted(manifest["faults"].items()))
    return (
        f"{lives} processes ({killed} killed), {slots} slots ({missed} missed and reported), {ports} port records, {torn} torn lines; "
        f"{'; '.join(compared)}; faults: {faults}"
    )


def check_itself(database, manifest, output):
    """Requires that a removed record and a record that is there twice are detected in an output."""
    place = [output["sampler"], output["name"]]
    ports = "FROM record WHERE sampler = $1 AND output = $2 AND kind = 'port'"
    middle = f"position = (SELECT quantile_disc(position, 0.5) {ports})"
    for name, change in (
        ("removed", f"DELETE {ports} AND {middle}"),
        ("doubled", f"INSERT INTO record SELECT * {ports} AND {middle}"),
    ):
        database.execute("BEGIN")
        database.execute(change, place)
        try:
            verify(database, manifest)
        except Failed:
            pass
        else:
            raise Failed(f"the check does not detect a {name} record in {output['file']}")
        finally:
            database.execute("ROLLBACK")


if __name__ == "__main__":
    try:
        print(check(sys.argv[1]))
    except (Failed, Skipped) as error:
        sys.exit(f"{type(error).__name__}: {error}")
