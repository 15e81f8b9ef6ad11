#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks from the includes that no layer sees one above or beside it, and that c10d is seen by the files
that may see it only. Run by CTest; argument: the project's root."""
import pathlib
import re
import sys

# layer -> layers it may include; docs/architecture.md draws the same.
BELOW = {
    "core": set(),
    "io": {"core"},
    "comm": {"core"},
    "data": {"core", "io"},
    "model": {"core", "io"},
    "tune": {"core", "io", "model"},
    "parallel": {"core", "comm", "model"},
    "train": {"core", "io", "comm", "data", "model", "tune", "parallel"},
    "cli": {"core", "io", "comm", "data", "model", "tune", "parallel", "train"},
}
C10D = re.compile(r"torch/csrc/distributed|gloo/")
C10D_FILES = {"src/comm/c10d_backend.cpp", "src/comm/c10d_near.cpp", "src/comm/c10d_near.h", "src/comm/c10d_store.cpp",
              "src/comm/c10d_store.h", "src/comm/nccl.cpp", "src/comm/nccl.h"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def faults(root):
    for path in sorted([*root.glob("include/duoka/**/*.h"), *root.glob("src/**/*.h"), *root.glob("src/**/*.cpp")]):
        name = path.relative_to(root).as_posix()
        layer = name.split("/")[2 if name.startswith("include/") else 1]
        text = path.read_text(encoding="utf8")
        if "SPDX-License-Identifier: Apache-2.0" not in text[:200]:
            yield f"{name}:1: no SPDX licence line"
        if layer not in BELOW:
            yield f"{name}:1: '{layer}' is no layer"
            continue
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            target = match.group(2)
            if target == "torch/torch.h":
                yield f"{name}:{number}: torch/torch.h costs 20 s of compile time; include what is used"
            if C10D.match(target) and name not in C10D_FILES:
                yield f"{name}:{number}: {target}: c10d is seen by {', '.join(sorted(C10D_FILES))} only"
            parts = target.split("/")
            seen = parts[1] if parts[0] == "duoka" and len(parts) > 2 else parts[0] if parts[0] in BELOW else None
            if seen and seen != layer and seen not in BELOW[layer]:
                yield f"{name}:{number}: {layer} must not see {seen} ({target})"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else "every include points down")
    sys.exit(1 if found else 0)


main()
