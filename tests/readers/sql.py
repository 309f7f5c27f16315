"""Runs SQL in DuckDB or ClickHouse: sql.py duckdb|clickhouse FOLDER < statements, as JSON texts one a line; a JSON array of rows a line comes back.

As `clickhouse-client --query`, with CLICKHOUSE_FOLDER in the environment, it inserts its standard input.
"""

import json
import os
import re
import sys
import tempfile


def duckdb(folder):
    import duckdb

    connection = duckdb.connect(os.path.join(folder, "store.duckdb"))
    return lambda statement: connection.execute(statement).fetchall()


def clickhouse(folder):
    from chdb import session

    store = session.Session(os.path.join(folder, "store"))
    store.query("CREATE DATABASE IF NOT EXISTS recipes ENGINE = Atomic")
    store.query("USE recipes")
    exact = " SETTINGS output_format_json_quote_64bit_integers = 0"

    def run(statement):
        asks = statement.lstrip().upper().startswith(("SELECT", "--")) and "CREATE" not in statement
        text = str(store.query(statement + exact if asks else statement, "JSONCompactEachRow"))
        return [json.loads(line) for line in text.splitlines() if line]

    return run


def main():
    if sys.argv[1] == "--query":
        with tempfile.NamedTemporaryFile(suffix=".jsonl") as lines:
            lines.write(sys.stdin.buffer.read())
            lines.flush()
            run = clickhouse(os.environ["CLICKHOUSE_FOLDER"])
            run(re.sub(r"INTO (\w+)", rf"INTO \1 FROM INFILE '{lines.name}'", sys.argv[2]))
        return
    run = {"duckdb": duckdb, "clickhouse": clickhouse}[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        print(json.dumps(run(json.loads(line)), default=str), flush=True)


main()
