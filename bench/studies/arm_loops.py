"""Cuts the hot loops out of a disassembly for ARM, for arm.sh: arm_loops.py OBJECT FOLDER [PAIRS] writes each loop as FOLDER/LOOP.s for llvm-mca, and a line on stdout:
LOOP, its multiply-adds, all instructions, loads, and vectors that go to the stack or come from it. Of an object that multiplies PAIRS of bfloat16 it reads the loops of
BFDOT. Reads `aarch64-linux-gnu-objdump -d`."""

import pathlib
import re
import subprocess
import sys

# What a loop is called, and the function that it is in: those that samples on x86 name. Of a function's loops it is the one with the most multiply-adds, which is that
# of the commonest dimension, 64.
LOOPS = (("scores", "score_alone"), ("values", "sum_whole"), ("backward", "grad_pour_four"), ("rows-scores", "scores_of_four|scores_of_many"), ("rows-values", "sum_rows"),
         ("family-scores", "attend_family"), ("family-values", "store_family"))  # fmt: skip
PAIRS = (("scores", "score_alone_bf16"), ("values", "sum_whole"))


def functions(listing):
    """Of each function its instructions, by address."""
    found, name = {}, None
    for line in listing.splitlines():
        if head := re.match(r"[0-9a-f]+ <(.+)>:", line):
            name = head[1]
            found[name] = []
        elif name and (one := re.match(r"\s+([0-9a-f]+):\s+(.*)", line)):
            found[name].append((int(one[1], 16), one[2].split("//")[0].strip()))
    return found


def loops(instructions):
    """The innermost loops: from the target of a branch back to the branch, with no such pair inside."""
    place = {address: i for i, (address, _) in enumerate(instructions)}
    spans = []
    for i, (address, text) in enumerate(instructions):
        jump = re.match(r"(?:b\.\w+|b|cbn?z|tbn?z)\s.*?([0-9a-f]+) <", text)
        if jump and int(jump[1], 16) <= address and int(jump[1], 16) in place:
            spans.append((place[int(jump[1], 16)], i))
    inner = [s for s in spans if not any(o != s and o[0] >= s[0] and o[1] <= s[1] for o in spans)]
    return [[text for _, text in instructions[first : last + 1]] for first, last in inner]


def count(loop, pattern):
    return sum(bool(re.match(pattern, text)) for text in loop)


def main():
    listing = subprocess.run(["aarch64-linux-gnu-objdump", "-d", "--no-show-raw-insn", sys.argv[1]], capture_output=True, text=True, check=True).stdout
    found, folder, missed = functions(listing), pathlib.Path(sys.argv[2]), []
    product, table = ("bfdot", PAIRS) if sys.argv[3:] else ("fmla", LOOPS)
    for name, function in table:
        of = [loop for one in function.split("|") for loop in loops(found.get(one, [])) if count(loop, product)]
        if not of:
            missed.append(f"{name}: no loop of {function} multiplies and adds")
            continue
        loop = max(of, key=lambda one: (count(one, product), -len(one)))
        # The branch leads to the loop's begin, which llvm-mca does not follow.
        text = [re.sub(r"[0-9a-f]+ <.*>", "begin", one) for one in loop]
        (folder / f"{name}.s").write_text("begin:\n" + "\n".join(text) + "\n")
        print(name, count(loop, product), len(loop), count(loop, "ld"), count(loop, r"(ld|st)[rpu]+\s+q.*\[sp"))
    sys.exit("\n".join(missed) or None)


main()
