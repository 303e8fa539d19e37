"""Each part of the package shows what is public and all of it, and says what to install where something is missing; a
wheel's command is its tool."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import hga
from shared import ROOT, TOOL, scratch

SOURCE = pathlib.Path(os.environ.get("HGA_SOURCE", ROOT))
COMMAND = SOURCE / "python" / "tool.py"
PARTS = {"torch": "torch", "transformers": "transformers", "onnx": "onnx"}  # what each needs first


def python(text, *arguments, **more):
    return subprocess.run([sys.executable, "-c", text, *arguments], capture_output=True, text=True, **more)


class Shown(unittest.TestCase):
    def test_completion_shows_what_is_public_and_all_of_it(self):
        for part, package in PARTS.items():
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")
            module = getattr(hga, part)
            self.assertEqual(sorted(dir(module)), sorted(module.__all__))
            for name in module.__all__:
                self.assertFalse(name.startswith("_"), name)
                getattr(module, name)

    def test_what_pages_name_is_shown(self):
        pages = "".join(path.read_text() for path in [SOURCE / "README.md", *SOURCE.glob("docs/*.md")])
        for part, package in PARTS.items():
            if importlib.util.find_spec(package) is None:
                self.skipTest(f"{package} is not installed")
            named = set(re.findall(rf"\bhga\.{part}\.([A-Za-z]\w*)\b", pages)) - {"py"}
            self.assertEqual(named - set(getattr(hga, part).__all__), set(), part)

    def test_the_package_shows_its_parts(self):
        self.assertLessEqual({*hga.__all__, *PARTS, "__version__"}, set(dir(hga)))
        self.assertFalse([name for name in dir(hga) if name.startswith("_") and name != "__version__"])


class Missing(unittest.TestCase):
    def test_a_part_without_what_it_needs_says_the_line_that_installs_it(self):
        for part, package in PARTS.items():
            done = python(f"import sys; sys.modules['{package}'] = None; import hga.{part}")
            self.assertEqual(done.returncode, 1)
            last = done.stderr.splitlines()[-1]
            self.assertEqual(last, f"ModuleNotFoundError: hga.{part} needs {package}, which is not installed: "
                                   f"pip install '.[{part}]' in the folder of hga's sources")  # fmt: skip

    def test_readme_says_the_line_that_installs_torch(self):
        self.assertIn("pip install torch --index-url https://download.pytorch.org/whl/cpu", (SOURCE / "README.md").read_text())


class Sources(unittest.TestCase):
    def test_tests_leave_nothing_beside_what_they_import(self):
        with tempfile.TemporaryDirectory() as folder:
            beside = pathlib.Path(folder, "beside.py")
            beside.write_text("")
            pathlib.Path(folder, "test_it.py").write_text("import beside, subprocess, sys, unittest\nclass It(unittest.TestCase):\n    def test_it(self):\n        subprocess.run([sys.executable, '-c', 'import beside'], check=True)\n")
            environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON") and name != "HGA_REQUIRE"}
            done = subprocess.run([sys.executable, SOURCE / "python" / "tests" / "run.py", "test_it"], cwd=folder, env=environment, capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(sorted(os.listdir(folder)), ["beside.py", "test_it.py"])

    def test_the_source_distribution_leaves_out_what_tests_compare_with(self):
        left_out = re.findall(r'"([^"]+)"', re.search(r"(?m)^sdist\.exclude = \[(.*)\]$", (SOURCE / "pyproject.toml").read_text()).group(1))
        self.assertIn("tests/golden", left_out)
        for folder in left_out:
            self.assertTrue((SOURCE / folder).is_dir(), folder)


class Command(unittest.TestCase):
    """python/tool.py, which is `hga` in a wheel."""

    def package(self, tool):
        package = scratch(self) / "hga"
        (package / "bin").mkdir(parents=True)
        (package.parent / "command").write_bytes(COMMAND.read_bytes())  # beside the sources it would find the package there
        (package / "__init__.py").write_text("raise SystemExit('the package was imported')")
        if tool:
            (package / "bin" / "hga").symlink_to(tool)
        return package.parent

    def run_command(self, tool, *arguments):
        folder = self.package(tool)
        return subprocess.run([sys.executable, os.path.join(folder, "command"), *arguments], capture_output=True, text=True)

    @unittest.skipUnless(os.environ.get("HGA_TOOL"), "HGA_TOOL names no tool")
    def test_it_is_the_tool_of_the_package_which_is_not_imported(self):
        done = self.run_command(TOOL, "variants", "--json")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn('"htransformer"', done.stdout)
        done = self.run_command(TOOL, "nothing")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("no subcommand 'nothing'", done.stderr)

    def test_without_a_tool_it_says_so(self):
        done = self.run_command(None)
        self.assertEqual(done.returncode, 1)
        self.assertEqual(done.stderr, "hga: the Python package hga is not here, or has no tool: install it again with pip\n")
