"""Facts about the releases of other packages that pyproject.toml says hga works with: both ends are what the tests run with."""

import pathlib
import re
import unittest

TESTS = pathlib.Path(__file__).resolve().parent
PACKAGES = ("torch", "transformers", "torch_geometric", "onnx", "jax")


def pinned(*names):
    """Package -> (major, minor) of files of requirements."""
    text = "".join((TESTS / name).read_text(encoding="utf-8") for name in names)
    found = re.findall(r"^(\w+)==(\d+)\.(\d+)", text, re.M)
    return {package: (int(major), int(minor)) for package, major, minor in found}


class Releases(unittest.TestCase):
    def setUp(self):
        text = (TESTS.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
        extras = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
        self.asked = re.findall(r'"(\w+)>=(\d+)\.(\d+),<(\d+)\.(\d+)"', extras)
        self.named = re.findall(r'"(\w+)[^"]*"', extras)

    def test_every_package_has_one_range(self):
        ranges = {(package, rest) for package, *numbers in self.asked for rest in [tuple(numbers)]}
        self.assertEqual(sorted(package for package, _ in ranges), sorted(PACKAGES))
        for package in PACKAGES:
            self.assertEqual(self.named.count(package), sum(x[0] == package for x in self.asked), package)

    def test_its_ends_are_the_oldest_and_the_newest_that_are_tested(self):
        oldest, newest = pinned("oldest.txt", "jax_oldest.txt"), pinned("requirements.txt", "jax.txt")
        for package, *numbers in self.asked:
            a, b, c, d = map(int, numbers)
            self.assertEqual((a, b), oldest[package], package)
            self.assertEqual((c, d - 1), newest[package], package)


if __name__ == "__main__":
    unittest.main()
