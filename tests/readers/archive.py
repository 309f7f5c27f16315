"""Runs the recipes of docs/recipes.md: archive.py FOLDER, which has archive/ and recipes.json, a list of [language, title, text].

Before, it removes from the files of the first hour the columns that an earlier version did not have. It prints a JSON array of
[language, title, rows] a line. The rows are null if a package is not installed.
"""

import glob
import json
import os
import sys

os.chdir(sys.argv[1])

# Columns that were added after the first version.
ADDED = ["mtu", "vls"]


def without_added_columns(path):
    """Writes a file again without the columns that an earlier version did not have."""
    import duckdb

    source = f"read_parquet('{path}', hive_partitioning = false)"
    duckdb.sql(f"COPY (SELECT * EXCLUDE ({', '.join(ADDED)}) FROM {source}) TO 'earlier.parquet'")
    os.replace("earlier.parquet", path)


for table in ["ports", "ports_1m", "devices"]:
    hours = sorted(glob.glob(f"archive/{table}/*/*/*.parquet"))
    assert len(hours) > 1, hours
    without_added_columns(hours[0])

for language, title, text in json.load(open("recipes.json")):
    if language == "python":
        names = {"rows": None}
        try:
            exec(text, names)
        except ModuleNotFoundError as error:
            print(error, file=sys.stderr)
        rows = names["rows"]
    elif language == "duckdb":
        import duckdb

        rows = duckdb.sql(text.rstrip().rstrip(";")).fetchall()
    else:
        import chdb

        answer = str(chdb.query(text.rstrip().rstrip(";") + " SETTINGS output_format_json_quote_64bit_integers = 0", "JSONCompactEachRow"))
        rows = [json.loads(line) for line in answer.splitlines() if line]
    print(json.dumps([language, title, rows], default=str), flush=True)
