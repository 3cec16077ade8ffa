#!/usr/bin/env python3
"""Finds out which functions the operator runs, and writes `order.ld`, which puts them first in the program.

The kernel maps 64 KiB of a program around each page that is touched. Functions that run lie together, so that it maps
little else. `order.ld` names functions without the hash at the end of their names, so that another compiler or another
version of a dependency changes little. It changes no function: a name that does not exist any more is ignored.

To write it again, on a machine with nothing else to do:

    cargo rustc --release --bin causeway -- -Cstrip=none -Clink-arg=-Wl,-Map=$PWD/target/order.map
    CAUSEWAY_BENCH_RUNNER=$PWD/link/order.py cargo xtask bench foundation --operator target/release/causeway
    link/order.py target/order.map

The second command starts each operator through this script, with a breakpoint at each function. The benchmark's figures
are of no use then (`git checkout docs`). The third command reads the map and what ran.
"""

import bisect
import collections
import ctypes
import os
import pathlib
import re
import signal
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
RAN = HERE.parent / "target" / "order"
"""A file for each operator that ran, with the addresses of its functions that ran."""

WORTH = 300
"""How many bytes of other functions may come along to save a line."""

# <https://man7.org/linux/man-pages/man2/ptrace.2.html>, <sys/ptrace.h>, <sys/user.h> of x86-64.
CONT, GETREGS, SETREGS, SETOPTIONS = 7, 12, 13, 0x4200
TRACEME, TRACECLONE, EXITKILL, EVENT_CLONE = 0, 0x8, 0x100000, 3
RIP, REGISTERS, ALL_THREADS = 16, 27, 0x40000000
NO_RANDOM_ADDRESSES = 0x0040000

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]


def functions(program):
    """The addresses of all functions."""
    printed = subprocess.run(["readelf", "-sW", program], check=True, capture_output=True, text=True).stdout
    fields = (line.split() for line in printed.splitlines())
    return sorted({int(it[1], 16) for it in fields if len(it) > 7 and it[3] == "FUNC" and it[2] != "0"})


def trace(program, arguments):
    """Runs the program until it ends or this process is told to, and writes which functions ran."""
    entries = functions(program)
    child = os.fork()
    if child == 0:
        libc.personality(NO_RANDOM_ADDRESSES)
        libc.ptrace(TRACEME, 0, None, None)
        os.execv(program, [program, *arguments])
    os.waitpid(child, 0)
    libc.ptrace(SETOPTIONS, child, None, TRACECLONE | EXITKILL)
    with open(f"/proc/{child}/maps") as maps:
        base = int(maps.readline().split("-")[0], 16)
    memory = os.open(f"/proc/{child}/mem", os.O_RDWR)
    before = {}
    for entry in entries:
        before[entry] = os.pread(memory, 1, base + entry)
        os.pwrite(memory, b"\xcc", base + entry)
    ran = set()

    def end(*_):
        RAN.mkdir(parents=True, exist_ok=True)
        (RAN / str(os.getpid())).write_text("\n".join(f"{entry:x}" for entry in sorted(ran)))
        os._exit(0)  # The program ends with us: EXITKILL.

    signal.signal(signal.SIGTERM, end)
    registers = (ctypes.c_ulonglong * REGISTERS)()
    libc.ptrace(CONT, child, None, 0)
    while True:
        try:
            thread, status = os.waitpid(-1, ALL_THREADS)
        except ChildProcessError:
            end()
        if not os.WIFSTOPPED(status):
            if thread == child:
                end()
            continue
        stopped_by = os.WSTOPSIG(status)
        if stopped_by == signal.SIGTRAP and status >> 16 != EVENT_CLONE:
            libc.ptrace(GETREGS, thread, None, ctypes.byref(registers))
            entry = registers[RIP] - 1 - base
            if entry in before:
                os.pwrite(memory, before[entry], base + entry)
                ran.add(entry)
                registers[RIP] -= 1
                libc.ptrace(SETREGS, thread, None, ctypes.byref(registers))
        passed_on = 0 if stopped_by in (signal.SIGTRAP, signal.SIGSTOP) else stopped_by
        libc.ptrace(CONT, thread, None, passed_on)


SECTION = re.compile(r"\s+([0-9a-f]+)\s+[0-9a-f]+\s+([0-9a-f]+)\s+\d+\s{9}(\S.*):\(\.text\.([^)]+)\)\s*$")


def sections(linker_map):
    """The address, the size, the pattern for the file, and the name without hashes of each function's section."""
    found = []
    for line in open(linker_map):
        if match := SECTION.match(line):
            address, size, file, name = match.groups()
            found.append((int(address, 16), int(size, 16), file_pattern(file), name_pattern(name)))
    return sorted(found)


def file_pattern(file):
    """Object files of crates are named CRATE-HASH.CRATE-HASH.…; all others are libraries with names of their own."""
    match = re.match(r"causeway-[0-9a-f]+\.(\w+)-[0-9a-f]+\.", os.path.basename(file))
    return f"*.{match[1]}-*" if match else "*"


def name_pattern(name):
    """The name without what changes with a version of the compiler, of the crate, or of aws-lc."""
    name = re.sub(r"\.llvm\.\d+$", "", name)
    name = re.sub(r"17h[0-9a-f]{16}E$", "17h*", name)
    name = re.sub(r"aws_lc_\d+_\d+_\d+_", "aws_lc_*_", name)
    if re.match(r"(unlikely\.)?_R", name):
        name = re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name) + "*"
    return name


def steps(name):
    """The modules around a function, from the outermost, as beginnings of its name: `_ZN5tokio7runtime…`."""
    match = re.match(r"((?:unlikely\.)?_ZN)(\d.*)", name)
    if not match:
        return [name]
    begin, rest = match.groups()
    found = []
    while number := re.match(r"\d+", rest):
        length = len(number[0]) + int(number[0])
        if len(rest) < length or rest.startswith("17h"):
            break
        begin, rest = begin + rest[:length], rest[length:]
        found.append(begin)
    return [*found, name]


def chosen(functions_of_file):
    """As few patterns as are worth it that name all functions that ran, of {name: (bytes that ran, other bytes)}."""
    ran, others, below = collections.Counter(), collections.Counter(), collections.defaultdict(set)
    outermost = set()
    for name, (hot, cold) in functions_of_file.items():
        outer = None
        for step in steps(name):
            ran[step] += hot
            others[step] += cold
            (outermost if outer is None else below[outer]).add(step)
            outer = step

    def best(step):
        if not ran[step]:
            return 0, []
        whole = (WORTH + others[step], [step if not below[step] else step + "*"])
        if not below[step]:
            return whole
        parts = [best(part) for part in sorted(below[step])]
        apart = (sum(cost for cost, _ in parts), [name for _, names in parts for name in names])
        return min(whole, apart, key=lambda choice: choice[0])

    return [name for step in sorted(outermost) for name in best(step)[1]]


def shortened(patterns, names):
    """The patterns, cut to what tells them from the names that they do not match."""
    names = sorted(names)
    for pattern in patterns:
        whole = pattern.split("*")[0]
        if pattern != whole + "*":
            yield pattern
            continue
        first = bisect.bisect_left(names, whole)
        after = first
        while after < len(names) and names[after].startswith(whole):
            after += 1
        neighbours = names[max(first - 1, 0) : first] + names[after : after + 1]
        shared = max((len(os.path.commonprefix([whole, name])) for name in neighbours), default=0)
        yield whole[: shared + 1] + "*"


def write(linker_map):
    """Writes the script. What an operator without objects runs comes first, what its others run second."""
    found = sections(linker_map)
    addresses = [section[0] for section in found]
    runs = []
    for file in RAN.iterdir():
        entries = (int(line, 16) for line in file.read_text().split())
        places = (bisect.bisect_right(addresses, entry) - 1 for entry in entries)
        runs.append({place for place in places if place >= 0})
    # Operators that wait for a lease run little; the one that leads without objects is the least of the others.
    leading = [run for run in runs if 20 * len(run) > 9 * max(map(len, runs))]
    lines, written = [], set()
    for ran in (min(leading, key=len), set.union(*runs)):
        files = collections.defaultdict(lambda: collections.defaultdict(lambda: (0, 0)))
        for place, (_, size, file, name) in enumerate(found):
            hot, cold = files[file][name]
            files[file][name] = (hot + size, cold) if place in ran else (hot, cold + size)
        for file, names in sorted(files.items()):
            patterns = [name for name in shortened(chosen(names), names) if (file, name) not in written]
            written.update((file, name) for name in patterns)
            if patterns:
                lines += [f"    {file}(", *(f"      .text.{name}" for name in patterns), "    )"]
    head = "/* What the operator runs comes first: written by order.py, which says why and how. */\n"
    body = "SECTIONS {\n  .text : {\n" + "\n".join(lines) + "\n    *(.text .text.*)\n  }\n}\nINSERT AFTER .eh_frame;\n"
    (HERE / "order.ld").write_text(head + body)
    print(f"{len(written)} patterns")


if __name__ == "__main__":
    if sys.argv[2:]:
        trace(sys.argv[1], sys.argv[2:])
    else:
        write(sys.argv[1])
