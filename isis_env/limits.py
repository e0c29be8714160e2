"""How much memory there is, so that a request beyond it is refused before anything is made."""

import os
from pathlib import Path

# What a container may use, and uses: of control groups version 2 and 1.
_CGROUPS = (
    (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory.current")),
    (Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"), Path("/sys/fs/cgroup/memory/memory.usage_in_bytes")),
)


def available_memory() -> int:
    """Bytes that this process can hope to get: what is free on the machine, and what its container leaves it.

    Where the system does not tell what is free, it is all memory of the machine.
    """
    known = [2**62]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            known.append(int(line.split()[1]) * 1024)
    for limit, used in (map(_read, files) for files in _CGROUPS):
        if limit.strip().isdecimal() and used.strip().isdecimal():  # the limit is "max" where there is none
            known.append(max(0, int(limit) - int(used)))
    return min(known)


def check_memory(name: str, value: int, bytes_each: int) -> None:
    """Refuse `value` things of `bytes_each` bytes if they do not fit into the memory that is available.

    Raises:
        ValueError: they do not; the message calls the value `name` and says how many would fit.
    """
    largest = available_memory() // bytes_each
    if value > largest:
        raise ValueError(f"{name}={value!r}: must be at most {largest}, which fill the memory that is available")


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except OSError:
        return ""
