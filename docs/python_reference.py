"""docs/python-reference.md from the package's docstrings: python3 docs/python_reference.py > docs/python-reference.md"""

import inspect

import hga

NAMES = [name for name in hga.__all__ if name not in hga._graphs.functions.__all__]  # those of variants come first
CLASSES = [name for name in NAMES if inspect.isclass(getattr(hga, name))]
FUNCTIONS = [name for name in NAMES if inspect.isroutine(getattr(hga, name))]


def said(thing, indent=""):
    return indent + " ".join((inspect.getdoc(thing) or "").split())


def signature(thing):
    """The arguments, without annotations, which docstrings say in words."""
    s = inspect.signature(thing)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in s.parameters.values() if p.name != "self"]
    return str(s.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def members(c):
    """What a class has of its own, after what it has from bases of the package that nobody sees (their names are not exported)."""
    found = {}
    for base in reversed(c.__mro__):
        if base is c or (base.__module__.startswith("hga.") and not hasattr(hga, base.__name__)):
            found |= vars(base)
    return found


def main():
    print("# Reference of the Python package\n")
    print("Made of the docstrings by `python3 docs/python_reference.py > docs/python-reference.md`; a test compares the two. [python.md](python.md) is the introduction.\n")
    print("Arrays are float32, float16 or bfloat16 on the CPU; a refusal is `hga.Error` with `status` (the C library's, such as HGA_EINVAL) and `detail`.\n")
    print("## Variants\n")
    print("`hga.NAME(n_tokens, **parameters)` gives a `Hierarchy`; a list of lengths gives a ragged batch.\n")
    for name in sorted(hga.variants()):
        f = getattr(hga, name.replace("-", "_"))
        head, _, *parameters = inspect.getdoc(f).splitlines()
        print(f"### hga.{f.__name__}\n\n{head}\n")
        print("\n".join(f"- {line}" for line in parameters) + "\n")
    print("## Functions\n")
    for name in FUNCTIONS:
        f = getattr(hga, name)
        print(f"- `hga.{name}{signature(f)}`: {said(f)}")
    for name in CLASSES:
        c = getattr(hga, name)
        print(f"\n## hga.{name}\n\n{said(c)}\n")
        for member, thing in members(c).items():
            f = thing.__func__ if isinstance(thing, staticmethod) else thing.fget if isinstance(thing, property) else thing
            if member.startswith("_") or not inspect.isfunction(f):
                continue
            shown = member if isinstance(thing, property) else member + signature(f)
            print(f"- `{shown}`" + (f": {said(f)}" if f.__doc__ else ""))


if __name__ == "__main__":
    main()
