"""Moves the times of records: shift.py SECONDS FILES."""

import re
import sys
from pathlib import Path

seconds = int(sys.argv[1])
for name in sys.argv[2:]:
    text = Path(name).read_text()
    text = re.sub(r'"ts":(\d+)', lambda found: f'"ts":{int(found[1]) + seconds * 10**9}', text)
    Path(name).write_text(re.sub(r'"slot":(\d+)', lambda found: f'"slot":{int(found[1]) + seconds}', text))
