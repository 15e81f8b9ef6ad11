# SPDX-License-Identifier: Apache-2.0
"""The report of bench/peers on runs made up here, and the load from elsewhere. Argument: the project's root."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
from xml.etree import ElementTree

ROOT = pathlib.Path(sys.argv.pop(1))
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "peer")]
import measure  # noqa: E402
import report  # noqa: E402


def made(program: str, speed: float, losses: tuple[float, ...] = (2.0, 1.0), other: float = 0.0, precision: str = "f32") -> dict:
    return {"program": program, "work": "lora", "precision": precision, "ranks": 1, "threads": 2, "updates": len(losses),
            "tokens_per_second": speed, "gib_per_rank": 1.0, "first_update_seconds": 3.0, "utilisation": 0.5,
            "peak_gflops": 100.0, "losses": list(losses), "other_cores": other, "versions": "1", "when": "2026"}


def row_of(name: str, runs: list[dict]) -> list[str]:
    line = next(line for line in report.table(runs).splitlines() if line.startswith(f"| {name} |"))
    return [cell.strip() for cell in line.split("|")[1:-1]]


class Report(unittest.TestCase):
    def test_medians_and_their_ratio(self):
        runs = [made("duoka", speed) for speed in (90, 300, 200)] + [made("trainer", 100)]
        self.assertEqual(row_of("duoka", runs)[2], "90 / 200 / 300")
        self.assertEqual(row_of("Trainer", runs)[2:4], ["100 / 100 / 100", "2.00"])

    def test_disturbed_runs_are_left_out_and_said_to_be(self):
        runs = [made("duoka", 200), made("duoka", 50, other=0.7), made("trainer", 40, other=0.7)]
        self.assertEqual(row_of("duoka", runs)[1:3], ["1 (1 disturbed left out)", "200 / 200 / 200"])
        self.assertEqual(row_of("Trainer", runs)[1], "1, all disturbed")

    def test_other_losses_are_other_work(self):
        good = [made("duoka", 200), made("bare", 100, (2.001, 1.0)), made("trl", 100, (1.0, 2.0))]
        self.assertEqual(report.disagreements(good), [])
        found = report.disagreements([*good, made("trainer", 100, (2.0, 1.1))])
        self.assertEqual(len(found), 1)
        self.assertIn("trainer: a loss differs by 10.00%", found[0])

    def test_the_picture_is_xml_with_a_bar_for_each_program(self):
        runs = [made("duoka", 200), made("trainer", 100), made("duoka", 300, precision="bf16")]
        root = ElementTree.fromstring(report.picture.svg(report.bars(runs)))
        widths = [float(bar.get("width")) for bar in root.iter("{http://www.w3.org/2000/svg}rect")]
        self.assertEqual(len(widths), 3)
        self.assertAlmostEqual(widths[0], 2 * widths[1], delta=0.2)


class Run(unittest.TestCase):
    def test_own_work_is_not_from_elsewhere(self):
        with tempfile.TemporaryDirectory() as folder:
            code = "import time\nbytes(50 << 20)\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass"
            busy, own = measure.busy_seconds(), measure.own_seconds()
            usage = measure.run([sys.executable, "-c", code], {}, f"{folder}/log")
            self.assertGreaterEqual(measure.own_seconds() - own, 0.3)
            self.assertGreaterEqual(measure.busy_seconds() - busy, 0.25)
            self.assertGreater(usage.gib[0], 0.005)

    def test_a_program_that_takes_too_long_is_ended(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaisesRegex(measure.Failed, "no end after"):
                measure.run(["sleep", "60"], {}, f"{folder}/log", time_limit=0.2)
            with self.assertRaisesRegex(measure.Failed, "exit code 1"):
                measure.run(["false"], {}, f"{folder}/log")


class Commands(unittest.TestCase):
    def test_the_report_is_a_command_of_its_own(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "runs.jsonl").write_text(report.json.dumps(made("duoka", 200)) + "\n", encoding="utf8")
            done = subprocess.run([sys.executable, str(ROOT / "bench/peer/report.py"), folder], check=True, capture_output=True)
            self.assertIn(b"1 runs", done.stdout)
            self.assertTrue(pathlib.Path(folder, "picture.svg").exists())


unittest.main()
