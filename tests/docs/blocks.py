"""The commands of the pages: code blocks and tables of Markdown, split into whole shell commands."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Block:
    """A code block. `line` is the number of its first line in the page."""

    page: str
    line: int
    language: str
    text: list[str]


@dataclass
class Command:
    page: str
    line: int
    text: str

    def title(self) -> str:
        """Returns the command in one line of at most 100 characters."""
        lines = [line for line in self.text.split("\n") if not line.startswith("#")]
        title = re.sub(r"\s+", " ", re.sub(r"\s#.*", "", lines[0].removesuffix("\\"))).strip()
        title += " ..." if len(lines) > 1 else ""
        return title if len(title) <= 100 else title[:97] + "..."


def blocks(path: Path, name: str) -> list[Block]:
    found, start, language = [], None, ""
    lines = path.read_text().split("\n")
    for number, line in enumerate(lines, 1):
        fence = re.match(r"\s*```(\w*)", line)
        if fence and start is None:
            start, language = number, fence[1]
        elif fence:
            found.append(Block(name, start + 1, language, lines[start : number - 1]))
            start = None
    return found


def whole(text: str) -> bool:
    """Returns whether the shell needs no further line. bash only warns of an open here-document."""
    if text.rstrip().endswith("\\"):
        return False
    done = subprocess.run(["bash", "-n", "-c", text], capture_output=True, text=True)
    return done.returncode == 0 and "here-document" not in done.stderr


def commands(block: Block) -> list[Command]:
    """Splits a block into commands. Text that never ends is one command: bash then reports why."""
    found, start, text = [], 0, ""
    # With a prompt, all other lines are output.
    has_prompt = any(line.startswith("$ ") for line in block.text)
    for number, line in enumerate(block.text):
        if has_prompt:
            line = line[2:] if line.startswith("$ ") else ""
        start = number if not text else start
        text = f"{text}\n{line}" if text else line
        if not text.strip() or text.lstrip().startswith("#") and "\n" not in text:
            text = ""
        elif whole(text):
            found.append(Command(block.page, block.line + start, text))
            text = ""
    return found + ([Command(block.page, block.line + start, text)] if text else [])


def table_column(path: Path, name: str, title: str) -> list[Command]:
    """Returns the commands in the column `title` of the tables of a page, one for each code span with arguments."""
    found, column = [], None
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if not line.startswith("|"):
            column = None
            continue
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if column is None:
            column = cells.index(title) if title in cells else -1
        elif column >= 0:
            # One word is a name, and no command.
            found += [Command(name, number, span) for span in re.findall(r"`([^`]+ [^`]+)`", cells[column])]
    return found


def spans(path: Path, name: str) -> list[Command]:
    """Returns the code spans of a page that have a program of ibnet and a flag or subcommand."""
    found, is_code = [], False
    for number, line in enumerate(path.read_text().split("\n"), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code:
            found += [Command(name, number, span) for span in re.findall(r"`(ibnet-(?:gen|sweep|view|hub) [^`]+)`", line)]
    return found
