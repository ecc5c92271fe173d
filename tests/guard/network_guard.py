"""Keeps a test run off the network: a socket or a name beyond loopback raises, and is written down.

It is an audit hook rather than a patch of `socket`: nothing in Python that connects or resolves escapes it,
whatever it imported and when. It does not see compiled code that makes its own system calls, nor Node.

`NETWORK_GUARD_LOG` names the file that attempts are appended to: code under test that survives a failed
connection (much of agenthood does, by design) must not hide the attempt, nor must a process that tests start.
"""

from __future__ import annotations

import os
import socket
import sys
from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

LOG_VARIABLE = "NETWORK_GUARD_LOG"


class NetworkForbiddenError(RuntimeError):
    """A test tried to leave this machine; no `OSError`, so that no fallback takes it for a plain failure."""


def guard(event: str, args: tuple[object, ...]) -> None:
    """Raise for an event that reaches beyond loopback.

    Raises:
        NetworkForbiddenError: a socket address, or a name to resolve, beyond loopback.
    """
    find_host = _HOST_OF.get(event)
    if find_host is None:
        return
    host = find_host(args)
    if not is_local(host):
        _write_down(f"{event} {host!r}")
        raise NetworkForbiddenError(
            f"{event} {host!r}: tests may use loopback only; start a local server instead"
        )


def is_local(host: object) -> bool:
    """True for loopback addresses, `localhost`, and no host at all; False for every other name or address."""
    # Imported only when something touches a socket: every guarded process would pay for it at start.
    import ipaddress  # noqa: PLC0415

    if isinstance(host, bytes | bytearray):
        host = host.decode("utf-8", "replace")
    if host is None or host in {"", "localhost"}:
        return True
    try:
        address = ipaddress.ip_address(str(host))
    except ValueError:
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def _first(args: tuple[object, ...]) -> object:
    return args[0]


def _sockaddr_host(args: tuple[object, ...]) -> object:
    address = args[0]
    return address[0] if isinstance(address, tuple) else address


def _internet_host(args: tuple[object, ...]) -> object:
    opened, address = args
    is_internet = getattr(opened, "family", None) in {socket.AF_INET, socket.AF_INET6}
    return address[0] if is_internet and isinstance(address, tuple) else None


_HOST_OF: dict[str, Callable[[tuple[object, ...]], object]] = {
    "socket.connect": _internet_host,
    "socket.sendto": _internet_host,
    "socket.sendmsg": _internet_host,
    "socket.getaddrinfo": _first,
    "socket.gethostbyname": _first,
    "socket.gethostbyaddr": _first,
    "socket.getnameinfo": _sockaddr_host,
}


def _write_down(line: str) -> None:
    path = os.environ.get(LOG_VARIABLE)
    if path:
        with open(path, "a", encoding="utf-8") as log:  # noqa: PTH123 - pathlib would slow every process down
            log.write(f"{line}\n")


def _names_checked_first(event: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def checked(opened: socket.socket, *args: Any) -> Any:
        guard(event, (opened, args[-1] if args else None))
        return method(opened, *args)

    return checked


def install() -> None:
    """Guard this process from now on; an audit hook cannot be taken away again."""
    sys.addaudithook(guard)
    # These resolve a host name before they raise their event. The address is the last argument of each.
    for name, event in [
        ("connect", "connect"),
        ("connect_ex", "connect"),
        ("sendto", "sendto"),
        ("sendmsg", "sendmsg"),
    ]:
        setattr(socket.socket, name, _names_checked_first(f"socket.{event}", getattr(socket.socket, name)))
