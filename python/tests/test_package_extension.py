"""The installed package brings what C needs: examples/extension is built against it, by CMake and without, and shares
its libhga."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import unittest

import hga
from shared import ROOT

EXAMPLE = ROOT / "examples" / "extension"
BUILD = pathlib.Path(hga.__file__).resolve().parents[2]
EMULATOR = os.environ.get("CMAKE_CROSSCOMPILING_EMULATOR", "").split()  # what cc compiles for another machine is started by it
HEADERS = pathlib.Path(sysconfig.get_paths()["include"])
USES = """
import sys
import hga, numpy as np
sys.path.insert(0, sys.argv[1])
import rows
q, k, v = (np.random.default_rng(i).standard_normal((50, 3, 16)).astype(np.float32) for i in range(3))
out = np.zeros_like(q)
rows.attend("htransformer block=8 causal=1", q, k, v, out)
wanted = hga.htransformer(50, block=8, causal=True).attention(q, k, v, layout="bnhd")
assert np.array_equal(out, wanted)
for wrong, says in (("htransformer block=0", "HGA_EINVAL: "), ("nothing", "HGA_EINVAL: ")):
    try:
        rows.attend(wrong, q, k, v, out)
    except ValueError as e:
        assert str(e).startswith(says), e
    else:
        raise AssertionError(wrong)
maps = open("/proc/self/maps").read().split()
print(*sorted({x for x in maps if "/libhga.so" in x}))
"""


def installed(folder):
    """The package as a wheel would have it, in a folder of its own: built, installed, and moved."""
    if (BUILD / "CMakeCache.txt").exists():
        subprocess.run(["cmake", "--install", BUILD, "--component", "python", "--prefix", folder / "first"], check=True, capture_output=True)
        return (folder / "first").rename(folder / "moved")
    return pathlib.Path(hga.__file__).resolve().parents[1]


@unittest.skipUnless(EXAMPLE.exists() and (HEADERS / "Python.h").exists() and shutil.which("cc"), "the example, Python's headers or cc is not here")
class Extension(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = pathlib.Path(scratch.name)
        cls.site = installed(cls.folder)
        cls.where = {**os.environ, "PYTHONPATH": str(cls.site)}
        cls.where.pop("LD_LIBRARY_PATH", None)

    def said(self, *command):
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=self.where, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def asked(self, what):
        return self.said(sys.executable, "-c", f"import hga; print({what})")

    def used(self, module):
        """The extension attends as the package does, and the process has one libhga."""
        self.assertEqual(self.said(sys.executable, "-c", USES, module.parent), self.asked("hga.library()"))

    def test_the_package_has_every_public_header_and_its_own_library(self):
        folder = pathlib.Path(self.asked("hga.include_dir()"))
        self.assertEqual(folder.parents[2], self.site)
        own = {x.name for pattern in ("graph/base/hga*.h", "*/public/hga*.h", "msgpass/*/public/hga*.h") for x in EXAMPLE.parents[1].glob(pattern)}
        self.assertEqual({x.name for x in folder.iterdir()}, own)
        self.assertEqual(pathlib.Path(self.asked("hga.library()")).parent, folder.parents[1])
        links = [x for x in folder.parents[1].rglob("*") if x.is_symlink()]
        self.assertEqual(links, [])

    def test_headers_have_two_spellings(self):
        """docs/installing.md: by -I alone."""
        folder = self.asked("hga.include_dir()")
        for header, path in (("hga.h", folder), ("hga/hga.h", folder + "/..")):
            source = self.folder / "spelt.c"
            source.write_text(f"#include <{header}>\nint main(void) {{ return !hga_version; }}\n")
            self.said("cc", "-std=c11", "-fsyntax-only", f"-I{path}", source)

    def test_the_example_builds_as_its_page_says(self):
        """By CMake, and by a compiler alone."""
        page = (EXAMPLE / "README.md").read_text(encoding="utf-8")
        ways = re.findall(r"^```sh\n(.*?)^```$", page, re.S | re.M)
        self.assertEqual(len(ways), 2)
        for i, commands in enumerate(ways):
            with self.subTest(commands=commands):
                here = pathlib.Path(shutil.copytree(EXAMPLE, self.folder / f"way{i}"))
                self.said("sh", "-eu", "-c", f"cd {here}; PATH={pathlib.Path(sys.executable).parent}:$PATH\n{commands}")
                (module,) = here.rglob("rows*.so")
                self.used(module)

    @unittest.skipUnless(shutil.which("cmake"), "cmake is not installed")
    def test_cmake_finds_the_files_too_and_no_other_version_or_part(self):
        for asked, wanted in (("0.6 COMPONENTS files", True), ("0.5", False), ("0.6 COMPONENTS static", False)):
            project = self.folder / asked.replace(" ", "_")
            project.mkdir()
            (project / "main.c").write_text("#include <hga.h>\n#include <hga/hga_files.h>\nint main(void) { return !hga_version() || !hga_graph_read; }\n")
            (project / "CMakeLists.txt").write_text(
                f"cmake_minimum_required(VERSION 3.22)\nproject(p LANGUAGES C)\nfind_package(hga {asked} REQUIRED)\n"
                "add_executable(p main.c)\ntarget_link_libraries(p PRIVATE hga::files)\n"
            )
            made = ["cmake", "-S", str(project), "-B", str(project / "build"), f"-Dhga_DIR={self.asked('hga.cmake_dir()')}"]
            done = subprocess.run(made, capture_output=True, text=True, env=self.where)
            self.assertEqual(done.returncode == 0, wanted, done.stderr)
            if wanted:
                self.said("cmake", "--build", project / "build")
                self.said(*EMULATOR, project / "build" / "p")
