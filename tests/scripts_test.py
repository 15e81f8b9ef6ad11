# SPDX-License-Identifier: Apache-2.0
"""scripts/* say what they do when asked, and refuse what they do not know, before they touch anything. Run on a copy.
Argument: the project's root."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1))


class Scripts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.scripts = pathlib.Path(folder.name, "scripts")
        shutil.copytree(ROOT / "scripts", self.scripts)

    def run_script(self, name, *words):
        # One that goes on has nothing to go on with: no project around it, no programs but the shell's own.
        tools = self.scripts.parent / "bin"
        tools.mkdir(exist_ok=True)
        for tool in ("bash", "cat", "dirname"):
            if not (tools / tool).exists():
                (tools / tool).symlink_to(shutil.which(tool))
        return subprocess.run([self.scripts / name, *words], env={"PATH": str(tools)}, capture_output=True, text=True,
                              check=False, timeout=300)

    def test_help_is_a_few_lines_and_the_end(self):
        for name in ("demo", "test"):
            for word in ("--help", "-h"):
                done = self.run_script(name, word)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertTrue(done.stdout.startswith(f"usage: scripts/{name} "))
                self.assertLess(done.stdout.count("\n"), 10)

    def test_an_unknown_option_is_one_line(self):
        for name, word in (("demo", "--cards"), ("demo", "max_steps"), ("test", "--peer"), ("test", "all")):
            done = self.run_script(name, word)
            self.assertEqual((done.returncode, done.stdout), (2, ""))
            self.assertRegex(done.stderr, f"^scripts/{name}: unknown option '{word}'; wanted .*\n$")

    def tearDown(self):
        self.assertEqual(sorted(path.name for path in self.scripts.parent.iterdir()), ["bin", "scripts"])


unittest.main()
