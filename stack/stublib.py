"""Stand-ins for shared libraries that mysqld names but never calls with the stack's settings.

Oracle's 8.0.15 build is linked against libaio and libnuma. Both are absent on many machines, installing them needs
root, and neither is used: native asynchronous I/O and NUMA interleaving are switched off. The loader only wants the
names. So where a library is missing, one is written whose functions all return -1 (the value by which both libraries
say "not supported"), as a minimal ELF file, without a compiler.
"""

from __future__ import annotations

import ctypes
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_PAGE: Final = 0x1000
_CODE: Final = b"\x48\xc7\xc0\xff\xff\xff\xff\xc3"  # mov rax, -1; ret
_FUNC, _OBJECT = 0x12, 0x11  # STB_GLOBAL with STT_FUNC, STT_OBJECT
_DT: Final = {"HASH": 4, "STRTAB": 5, "SYMTAB": 6, "STRSZ": 10, "SYMENT": 11, "SONAME": 14}


@dataclass(frozen=True, slots=True)
class Stub:
    """A library by its soname: functions that return -1, and null pointers."""

    soname: str
    functions: tuple[str, ...]
    pointers: tuple[str, ...] = ()


MYSQL_8015: Final = (
    Stub("libaio.so.1", ("io_setup", "io_submit", "io_getevents", "io_destroy", "io_cancel")),
    Stub(
        "libnuma.so.1",
        (
            "mbind",
            "set_mempolicy",
            "numa_available",
            "numa_node_of_cpu",
            "numa_alloc_onnode",
            "numa_alloc_local",
            "numa_free",
        ),
        ("numa_all_nodes_ptr",),
    ),
)


def write_missing(folder: Path, stubs: tuple[Stub, ...] = MYSQL_8015) -> tuple[str, ...]:
    """Write a stand-in for each library that the loader does not find; returns the sonames that needed one."""
    missing = tuple(stub for stub in stubs if not _loads(stub.soname))
    folder.mkdir(parents=True, exist_ok=True)
    for stub in missing:
        part = folder / f"{stub.soname}.part"
        part.write_bytes(build(stub))
        part.replace(folder / stub.soname)
    return tuple(stub.soname for stub in missing)


def build(stub: Stub) -> bytes:
    """The bytes of an x86-64 ELF shared library: one page of tables and code, one page of writable data."""
    names = (*stub.functions, *stub.pointers)
    strings = b"\0" + b"".join(name.encode() + b"\0" for name in (*names, stub.soname))
    header_size = 64 + 4 * 56
    code_at = _align(header_size)
    hash_at = _align(code_at + len(_CODE))
    hashes = _hash_table(names)
    symbols_at = _align(hash_at + len(hashes))
    strings_at = symbols_at + 24 * (len(names) + 1)
    dynamic_at = _PAGE
    data_at = dynamic_at + 16 * (len(_DT) + 1)
    symbols = _symbols(stub, strings, code_at, data_at)
    values = (hash_at, strings_at, symbols_at, len(strings), 24, strings.index(stub.soname.encode() + b"\0"))
    dynamic = b"".join(struct.pack("<qQ", *entry) for entry in (*zip(_DT.values(), values, strict=True), (0, 0)))
    image = bytearray(_PAGE)
    for at, part in ((code_at, _CODE), (hash_at, hashes), (symbols_at, symbols), (strings_at, strings)):
        image[at : at + len(part)] = part
    image += dynamic + bytes(8 * len(stub.pointers))
    image[:header_size] = _headers(len(dynamic), len(image) - _PAGE)
    return bytes(image)


def _loads(soname: str) -> bool:
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


def _align(value: int) -> int:
    return (value + 15) & ~15


def _symbols(stub: Stub, strings: bytes, code_at: int, data_at: int) -> bytes:
    """Symbol table: an empty entry, the functions (all the same code), the pointers (8 bytes each)."""

    def entry(name: str, kind: int, section: int, at: int, size: int) -> bytes:
        return struct.pack("<IBBHQQ", strings.index(b"\0" + name.encode() + b"\0") + 1, kind, 0, section, at, size)

    functions = [entry(name, _FUNC, 1, code_at, len(_CODE)) for name in stub.functions]
    pointers = [entry(name, _OBJECT, 2, data_at + 8 * index, 8) for index, name in enumerate(stub.pointers)]
    return bytes(24) + b"".join(functions + pointers)


def _hash_table(names: tuple[str, ...]) -> bytes:
    """A System V hash table with one bucket: every symbol in one chain."""
    count = len(names) + 1
    chain = [0, *range(2, count), 0]
    return struct.pack(f"<3I{count}I", 1, count, 1, *chain)


def _headers(dynamic_size: int, data_size: int) -> bytes:
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    elf = ident + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 4, 64, 0, 0)

    def segment(kind: int, flags: int, at: int, size: int, align: int) -> bytes:
        return struct.pack("<IIQQQQQQ", kind, flags, at, at, at, size, size, align)

    return (
        elf
        + segment(1, 5, 0, _PAGE, _PAGE)  # PT_LOAD, read and execute
        + segment(1, 6, _PAGE, data_size, _PAGE)  # PT_LOAD, read and write: the loader writes into the dynamic table
        + segment(2, 6, _PAGE, dynamic_size, 8)  # PT_DYNAMIC
        + segment(0x6474E551, 6, 0, 0, 16)  # PT_GNU_STACK: the stack is not executable
    )
