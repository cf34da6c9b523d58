"""A seccomp filter for commands in the sandbox, as the classic BPF program that bubblewrap loads. Pure.

Namespaces hide what is outside; the filter closes doors of the kernel that a command has no use for: new namespaces and mounts,
tracing, keys, modules, clocks, loading of BPF, odd socket families, typing into a terminal. They answer EPERM, so that
programs that try them go on; a call of another architecture's table, which the numbers do not fit, ends the program.
"""

from __future__ import annotations

import struct

EPERM, ENOSYS = 1, 38
_ALLOW, _ERRNO, _KILL = 0x7FFF0000, 0x00050000, 0x80000000
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER_AT, _ARCH_AT = 0, 4
_NEW_NAMESPACES = 0x7E020080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET and NEWTIME, as flags of clone()."""
_TERMINAL_REQUESTS = (0x5412, 0x541C)
"""TIOCSTI types into a terminal, TIOCLINUX pastes into one."""
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16

_TABLE = """
socket 41 198; clone 56 220; clone3 435 435; ioctl 16 29; acct 163 89; add_key 248 217; adjtimex 159 171;
bpf 321 280; chroot 161 51; clock_adjtime 305 266; clock_settime 227 112; delete_module 176 106;
fanotify_init 300 262; finit_module 313 273; fsconfig 431 431; fsmount 432 432; fsopen 430 430; fspick 433 433;
init_module 175 105; io_uring_enter 426 426; io_uring_register 427 427; io_uring_setup 425 425; ioperm 173 -;
iopl 172 -; kcmp 312 272; kexec_file_load 320 294; kexec_load 246 104; keyctl 250 219; lookup_dcookie 212 18;
mount 165 40; mount_setattr 442 442; move_mount 429 429; name_to_handle_at 303 264; nfsservctl 180 42;
open_by_handle_at 304 265; open_tree 428 428; perf_event_open 298 241; personality 135 92; pidfd_getfd 438 438;
pivot_root 155 41; process_vm_readv 310 270; process_vm_writev 311 271; ptrace 101 117; quotactl 179 60;
reboot 169 142; request_key 249 218; setdomainname 171 162; sethostname 170 161; setns 308 268;
settimeofday 164 170; swapoff 168 225; swapon 167 224; syslog 103 116; umount2 166 39; unshare 272 97;
userfaultfd 323 282; vhangup 153 58
"""
"""Name, number on x86_64, number on aarch64 (`-`: there is none). Four are looked at more closely, all others denied."""
_LOOKED_AT = ("socket", "clone", "clone3", "ioctl")


def _numbers(column: int) -> dict[str, int]:
    rows = (row.split() for row in _TABLE.replace("\n", " ").split(";"))
    return {row[0]: int(row[column]) for row in rows if row[column] != "-"}


ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
"""By `platform.machine()`, as the kernel's audit numbers them."""
NUMBERS = {"x86_64": _numbers(1), "aarch64": _numbers(2)}


def program(machine: str, *, network: bool) -> bytes | None:
    """The filter for this kind of machine, as `platform.machine()` names it; None where its numbers are not known.

    `network`: internet sockets work, and local ones do not: without a network namespace of its own, a command could reach
    the machine's services by their abstract names.
    """
    architecture = ARCHITECTURES.get(machine)
    if architecture is None:
        return None
    families = (AF_INET, AF_INET6, AF_NETLINK) if network else (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
    code = [_op(_LOAD, _ARCH_AT), _op(_JUMP_EQUAL, architecture, 1, 0), _op(_RETURN, _KILL), _op(_LOAD, _NUMBER_AT)]
    if machine == "x86_64":  # the x32 table: the same architecture, other numbers
        code += [_op(_JUMP_GREATER_EQUAL, 0x40000000, 0, 1), _op(_RETURN, _KILL)]
    numbers = NUMBERS[machine]
    code += _answer(numbers["clone3"], ENOSYS)  # its flags are behind a pointer; libraries fall back on clone
    for name, number in numbers.items():
        if name not in _LOOKED_AT:
            code += _answer(number, EPERM)
    code += _when(numbers["clone"], [_op(_LOAD, _argument(0)), _op(_JUMP_SET, _NEW_NAMESPACES, 0, 1), _refuse(EPERM)])
    code += _when(numbers["ioctl"], [_op(_LOAD, _argument(1)), *_if_any(_TERMINAL_REQUESTS, _refuse(EPERM))])
    code += _when(numbers["socket"], [_op(_LOAD, _argument(0)), *_unless_any(families, _refuse(EPERM))])
    return b"".join([*code, _op(_RETURN, _ALLOW)])


def _op(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _argument(number: int) -> int:
    """Where the low half of a system call's argument lies in what the filter is shown (both machines are little-endian)."""
    return 16 + 8 * number


def _refuse(errno: int) -> bytes:
    return _op(_RETURN, _ERRNO | errno)


def _answer(number: int, errno: int) -> list[bytes]:
    return [_op(_JUMP_EQUAL, number, 0, 1), _refuse(errno)]


def _when(number: int, body: list[bytes]) -> list[bytes]:
    """`body` for this call alone; what it does not refuse is allowed."""
    body = [*body, _op(_RETURN, _ALLOW)]
    return [_op(_JUMP_EQUAL, number, 0, len(body)), *body]


def _if_any(values: tuple[int, ...], then: bytes) -> list[bytes]:
    return [part for value in values for part in (_op(_JUMP_EQUAL, value, 0, 1), then)]


def _unless_any(values: tuple[int, ...], then: bytes) -> list[bytes]:
    jumps = [_op(_JUMP_EQUAL, value, len(values) - place, 0) for place, value in enumerate(values)]
    return [*jumps, then]
