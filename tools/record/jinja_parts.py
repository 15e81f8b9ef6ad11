#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the tables `{R"(template)", R"(text)"}` in tests/data/jinja_*_test.cpp against Python's Jinja2.

  jinja_parts.py            says which texts differ from Python's, and exits with 1 when any does
  jinja_parts.py --write    puts Python's texts in, or `raises` where Python raises; format the files after it

A new case is written as `{R"(template)", R"(?)"}` and recorded by --write. Jinja2 is set up as transformers does; the
variables stand in tests/data/jinja_cases.h. Recorded with Jinja2 3.1.6 and transformers 5.24.
"""

import argparse
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# A neighbour of this file has the name of a package that transformers imports.
sys.path = [entry for entry in sys.path if pathlib.Path(entry or ".").resolve() != ROOT / "tools" / "record"]

from transformers.utils.chat_template_utils import _compile_jinja_template  # noqa: E402

TESTS = ROOT / "tests" / "data"
ENTRY = re.compile(r'\{R"\((.*?)\)",(\s*)(raises|R"\((.*?)\)")\}', re.DOTALL)
MESSAGES = [{"role": "user", "content": " Hi <b>\n"}, {"role": "assistant", "content": "Yo"}]


def variables():
    header = (TESTS / "jinja_cases.h").read_text("utf8")
    return json.loads(re.search(r'R"json\((.*?)\)json"', header, re.DOTALL).group(1))


def render(source):
    """The text, or None where Python raises."""
    given = {"messages": MESSAGES, "tools": None, "documents": None, "add_generation_prompt": False}
    try:
        return _compile_jinja_template(source).render(**given, **variables())
    except Exception:  # noqa: BLE001: any error of the template is a result here
        return None


def recorded(match, differing):
    source, space, now, text = match.groups()
    wanted = render(source)
    if wanted == text:
        return match.group(0)
    differing.append(f"{source!r}: {text!r}, Python: {wanted!r}")
    if wanted is not None and (')"' in wanted or "\r" in wanted or "\0" in wanted):
        sys.exit(f"{source!r} gives {wanted!r}, which a raw string cannot hold")
    filled = "raises" if wanted is None else f'R"({wanted})"'
    return f'{{R"({source})",{space}{filled}}}'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put Python's texts in")
    arguments = parser.parse_args()
    num_cases = num_differing = 0
    for path in sorted(TESTS.glob("jinja_*_test.cpp")):
        if path.name == "jinja_errors_test.cpp":  # holds messages of duoka's own
            continue
        differing = []
        old = path.read_text("utf8")
        new, count = ENTRY.subn(lambda match: recorded(match, differing), old)
        num_cases += count
        num_differing += len(differing)
        for line in differing:
            print(f"{path.name}: {line}")
        if arguments.write and new != old:
            path.write_text(new, "utf8")
    print(f"{num_cases} cases, {num_differing} differ")
    if num_differing and not arguments.write:
        sys.exit(1)


if __name__ == "__main__":
    main()
