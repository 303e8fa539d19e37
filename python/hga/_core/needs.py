"""What parts of the package need beside numpy, said before they are imported."""

from __future__ import annotations

from importlib.util import find_spec


def needs(package: str, extra: str) -> None:
    """Refuse to go on without a package that `pip install '.[extra]'` installs."""
    if find_spec(package) is None:
        line = f"hga.{extra} needs {package}, which is not installed: pip install '.[{extra}]' in the folder of hga's sources"
        raise ModuleNotFoundError(line, name=package)
