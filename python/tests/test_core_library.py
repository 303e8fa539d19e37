"""Where a library that the package needs is not there, one line says what to install."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import hga
from hga._core import library as _library

LOADER = "libjansson.so.4: cannot open shared object file: No such file or directory"


class Library(unittest.TestCase):
    def test_an_import_says_in_one_line_what_to_install(self):
        """A package whose compiled module fails as the dynamic loader fails."""
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(pathlib.Path(hga.__file__).parent, pathlib.Path(folder, "hga"), ignore=shutil.ignore_patterns("_hga*", "*.so*"))
            pathlib.Path(folder, "hga", "_hga.py").write_text(f"raise ImportError({LOADER!r})\n")
            done = subprocess.run([sys.executable, "-c", "import hga"], env={**os.environ, "PYTHONPATH": folder}, capture_output=True, text=True, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr.splitlines()[-1], r"^ImportError: hga needs libjansson\.so\.4: (sudo (apt-get install libjansson4|dnf install jansson|pacman -S jansson)$|Debian's package is libjansson4)")

    def test_the_command_is_that_of_the_system(self):
        said = {}
        for installer in ("apt-get", "dnf", "pacman", ""):
            with mock.patch.object(_library.shutil, "which", lambda program, here=installer: program if program == here else None):
                said[installer] = _library.what_is_missing("libgomp.so.1: cannot open shared object file: No such file or directory")
        self.assertEqual(said["apt-get"], "hga needs libgomp.so.1: sudo apt-get install libgomp1")
        self.assertEqual(said["dnf"], "hga needs libgomp.so.1: sudo dnf install libgomp")
        self.assertEqual(said["pacman"], "hga needs libgomp.so.1: sudo pacman -S gcc-libs")
        self.assertEqual(said[""], "hga needs libgomp.so.1: Debian's package is libgomp1, Fedora's libgomp, Arch's gcc-libs")

    def test_other_errors_stay_as_they_are(self):
        for words in ("undefined symbol: hga_x", "libother.so.1: cannot open shared object file: No such file or directory", ""):
            self.assertEqual(_library.what_is_missing(words), words)

    def test_every_library_that_the_module_needs_has_its_package(self):
        if not shutil.which("objdump"):
            self.skipTest("objdump is not installed")
        folder = pathlib.Path(hga.__file__).parent
        own = [next(folder.glob("_hga*.so")), *folder.glob("libhga*.so.*")]
        said = "".join(subprocess.run(["objdump", "-p", path], capture_output=True, text=True, check=True).stdout for path in own)
        needed = set(re.findall(r"NEEDED +(lib[\w-]+)\.so", said))
        self.assertIn("libjansson", needed)
        self.assertEqual(sorted(needed - set(_library.PACKAGES) - {"libc", "libm", "libpthread", "libhga", "libhga-files"}), [])
