"""How much memory there is, so that what cannot fit is refused before any of it is made."""

import os
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def available_memory() -> int | None:
    """Bytes that this process can still have, or None where the system does not tell.

    On Linux what the kernel calls available, or the limit of the container where that is less; elsewhere all memory.
    """
    amounts = []
    for line in _read(_MEMINFO).splitlines():
        if line.startswith("MemAvailable:"):
            amounts.append(1024 * int(line.split()[1]))
    if not amounts and hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        amounts.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _CGROUP_LIMITS:
        limit = _read(path).strip()
        if limit.isdecimal():  # "max" where there is none
            amounts.append(int(limit))
    return min(amounts, default=None)


def check_memory(name: str, value: object, needed: int) -> None:
    """Raise a ValueError that names `value` as `name` if `needed` bytes are more than there are."""
    available = available_memory()
    if available is not None and needed > available:
        raise ValueError(
            f"{name}={value}: needs {needed:,} bytes of memory ({needed / 2**30:,.1f} GiB), "
            f"must be at most the {available:,} that are available"
        )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError:
        return ""
