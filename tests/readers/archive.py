"""Runs the recipes of docs/stores.md: archive.py FOLDER, which has archive/ and recipes.json, a list of [language, title, text].

It prints a JSON array of [language, title, rows] a line. The rows are null if a package is not
installed.
"""

import json
import os
import sys

os.chdir(sys.argv[1])
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
