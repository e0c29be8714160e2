"""How much memory there is, so that a request beyond it is refused before anything is made."""

import os
from pathlib import Path

_CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def available_memory() -> int:
    """Bytes that this process can hope to get: what is free on the machine, and no more than its container may use.

    Where the system does not tell what is free, it is all memory of the machine.
    """
    known = [2**62]
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for line in _read(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            known.append(int(line.split()[1]) * 1024)
    # What a container uses is not subtracted: it counts the cache of files, which makes room when memory is wanted.
    known.extend(int(text) for text in map(_read, _CGROUP_LIMITS) if text.strip().isdecimal())
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
