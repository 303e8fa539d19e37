"""Runs the facts of one module: run.py MODULE. What is skipped is never silent: with HGA_REQUIRE (names with commas) a
fact that is skipped since one of them is not installed has failed, and a module of which nothing ran is skipped (77)."""

import os
import re
import sys
import unittest

SKIPPED = 77


def blamed(reason, required):
    """Is it said to be skipped for want of something that must be here?"""
    return "not installed" in reason and bool(set(re.findall(r"\w+", reason)) & set(required))


def main(module):
    required = [name for name in os.environ.get("HGA_REQUIRE", "").split(",") if name]
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(unittest.defaultTestLoader.loadTestsFromName(module))
    missing = [f"{test}: {reason}" for test, reason in result.skipped if blamed(reason, required)]
    for line in missing:
        print(f"must run here, but was skipped: {line}")
    if missing or not result.wasSuccessful() or not (result.testsRun or result.skipped):
        return 1
    # A skipped class is no test that ran; a skipped part of a test leaves its others.
    whole = [test for test, _ in result.skipped if isinstance(test, unittest.TestCase) and not hasattr(test, "test_case")]
    return 0 if result.testsRun > len(whole) else SKIPPED


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    sys.exit(main(sys.argv[1]))
