"""Runs the facts of modules: run.py MODULE .. What is skipped is never silent: with HGA_REQUIRE (names with commas) a
fact that is skipped since one of them is not installed has failed, and a module of which nothing ran is skipped (77).

Several modules each run in a process of their own, which begins with what takes longest to import (torch, transformers)
already there. They are skipped when all of them are."""

import contextlib
import gc
import importlib.util
import os
import pathlib
import re
import sys
import traceback
import unittest

if not sys.pycache_prefix:  # nothing is left beside the sources, by what tests start neither
    sys.dont_write_bytecode = True
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
SKIPPED = 77
# Transformers imports its parts when they are first asked for; this one has most of the others in it.
HEAVY = "torch", "transformers", "transformers.generation.utils"


def blamed(reason, required):
    """Is it said to be skipped for want of something that must be here?"""
    return "not installed" in reason and bool(set(re.findall(r"\w+", reason)) & set(required))


def run(module):
    required = [name for name in os.environ.get("HGA_REQUIRE", "").split(",") if name]
    facts = unittest.defaultTestLoader.loadTestsFromName(module)
    gc.freeze()  # what was imported is never garbage: looking through it takes a tenth of the time of tests that compile
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(facts)
    missing = [f"{test}: {reason}" for test, reason in result.skipped if blamed(reason, required)]
    for line in missing:
        print(f"must run here, but was skipped: {line}")
    if missing or not result.wasSuccessful() or not (result.testsRun or result.skipped):
        return 1
    # A skipped class is no test that ran; a skipped part of a test leaves its others.
    whole = [test for test, _ in result.skipped if isinstance(test, unittest.TestCase) and not hasattr(test, "test_case")]
    return 0 if result.testsRun > len(whole) else SKIPPED


def import_heavy(modules):
    text = "".join(pathlib.Path(f"{module}.py").read_text() for module in modules)
    for name in HEAVY:
        package = name.partition(".")[0]
        named = re.search(rf"^ *(import|from) .*\b{package}\b|package\(.{package}\b", text, re.M)
        if named and importlib.util.find_spec(package):
            with contextlib.suppress(ImportError):  # is for those to say who want it
                importlib.import_module(name)
    gc.freeze()


def run_apart(module):
    """In a process of its own."""
    print(f"== {module}", flush=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = run(module)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(modules):
    if len(modules) == 1:
        return run(modules[0])
    import_heavy(modules)
    codes = {module: run_apart(module) for module in modules}
    failed = [module for module, code in codes.items() if code not in (0, SKIPPED)]
    skipped = [module for module, code in codes.items() if code == SKIPPED]
    for word, some in (("skipped", skipped), ("failed", failed)):
        if some:
            print(f"{word}: {' '.join(some)}")
    return 1 if failed else SKIPPED if len(skipped) == len(modules) else 0


if __name__ == "__main__":
    sys.path.insert(0, os.getcwd())
    sys.exit(main(sys.argv[1:]))
