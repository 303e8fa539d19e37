"""What calls of a hierarchy run on where they do not say it themselves."""

from __future__ import annotations

from .arguments import bind as known_binding, threads as whole_threads


class Threaded:
    """Has threads and a binding."""

    _threads = 0
    _bind = "auto"

    @property
    def threads(self) -> int:
        """Threads of calls that do not say how many; 0: the library's own choice."""
        return self._threads

    @threads.setter
    def threads(self, n: int) -> None:
        self._threads = whole_threads(n)

    @property
    def bind(self) -> str:
        """Are threads bound, each to a processor, for the length of each call? ``"auto"`` (where nothing is said): where
        there are several NUMA domains, the call has a thread for every core and OpenMP binds nothing; ``"on"``, ``"off"``."""
        return self._bind

    @bind.setter
    def bind(self, when: str) -> None:
        self._bind = known_binding(when)
        self._bound()

    def _bound(self) -> None:
        """After another binding: what was made with the one before goes."""
