#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what the `gguf` package says, for tests/io/gguf_test.cpp.

Writes tests/fixtures/golden/gguf_types.gguf (a small file with each metadata type and each tensor type we
read) and gguf.json (the values that package gives for it; the tensor list and some values of SmolLM2's
file, if it is there). Usage: gguf.py [SMOLLM2.gguf]
"""

import importlib.metadata
import json
import pathlib
import sys

# This script is named as the package is: look for the package elsewhere first.
sys.path = [p for p in sys.path if pathlib.Path(p or ".").resolve() != pathlib.Path(__file__).resolve().parent]
import gguf
import numpy
from gguf import GGMLQuantizationType as Type
from gguf import quants

SEED = 20240607
GOLDEN = pathlib.Path(__file__).resolve().parents[2] / "tests" / "fixtures" / "golden"
TYPES = [Type.F32, Type.F16, Type.BF16, Type.Q8_0, Type.Q4_0, Type.Q4_1, Type.Q5_0, Type.Q5_1]


def hexed(values):
    return numpy.ascontiguousarray(values, dtype="<f4").tobytes().hex()


def write_types_file(path):
    """A [3, 64] tensor of each type, of normal numbers; returns what they are when read back."""
    rng = numpy.random.default_rng(SEED)
    writer = gguf.GGUFWriter(path, "test")
    for kind, value in [("uint8", 200), ("int8", -100), ("uint16", 60000), ("int16", -30000), ("uint32", 4000000000),
                        ("int32", -2000000000), ("uint64", 2**64 - 1), ("int64", -(2**63)), ("float32", 0.1),
                        ("float64", 0.1), ("bool", True), ("string", "grüße, 世界")]:
        getattr(writer, f"add_{kind}")(f"test.{kind}", value)
    writer.add_array("test.strings", ["a", "", "世界"])
    writer.add_array("test.ints", [1, -2, 3])
    writer.add_array("test.floats", [0.5, -1.25])
    expected = {}
    for kind in TYPES:
        values = rng.standard_normal((3, 64)).astype(numpy.float32)
        values[0, :32] = 0.0  # a block whose scale is 0
        data = quants.quantize(values, kind)
        raw = None if kind in (Type.F32, Type.F16) else kind
        writer.add_tensor(f"{kind.name.lower()}.weight", data, raw_dtype=raw)
        expected[f"{kind.name.lower()}.weight"] = {
            "type": kind.name, "shape": [3, 64], "values": hexed(quants.dequantize(data, kind))}
    writer.add_tensor("vector", numpy.arange(5, dtype=numpy.float32))
    expected["vector"] = {"type": "F32", "shape": [5], "values": hexed(numpy.arange(5))}
    writer.add_tensor("q6_k.weight", rng.integers(0, 256, (2, 210), dtype=numpy.uint8), raw_dtype=Type.Q6_K)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return expected


def describe_model(path):
    reader = gguf.GGUFReader(path)
    tensors, values = [], {}
    for tensor in reader.tensors:
        shape = [int(n) for n in reversed(tensor.shape)]
        tensors.append([tensor.name, tensor.tensor_type.name, shape])
        if tensor.name == "token_embd.weight" or tensor.name.startswith(("blk.0.", "blk.29.")):
            rows = quants.dequantize(tensor.data, tensor.tensor_type).reshape(-1, shape[-1])
            values[tensor.name] = {"first": hexed(rows[0, :4]), "last": hexed(rows[-1, -4:]),
                                   "sum": float(rows.sum(dtype=numpy.float64))}
    return {"file": pathlib.Path(path).name, "tensors": tensors, "values": values}


def main():
    GOLDEN.mkdir(parents=True, exist_ok=True)
    record = {"versions": {name: importlib.metadata.version(name) for name in ("gguf", "numpy")}, "seed": SEED,
              "types": write_types_file(str(GOLDEN / "gguf_types.gguf"))}
    if len(sys.argv) > 1:
        record["model"] = describe_model(sys.argv[1])
    (GOLDEN / "gguf.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")


main()
