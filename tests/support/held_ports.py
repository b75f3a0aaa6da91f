"""Ports of loopback that stay one's own until a server listens on them, and while it does.

    held_ports.py COUNT     prints that many, and holds them until it is killed or whoever started it ends

Who asks for a free port to name it to a server, and lets go of it first, may find it taken. These are bound and do not
listen: no port is given to anybody as a free one that is bound, but a server that names it and reuses addresses, as
nearly all do, listens there all the same."""

import ctypes
import signal
import socket
import sys

PR_SET_PDEATHSIG = 1


def hold():
    """A socket that holds a port for as long as it is open; getsockname()[1] is the port."""
    holder = socket.socket()
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind(("127.0.0.1", 0))
    return holder


def main():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    holders = [hold() for _ in range(int(sys.argv[1]))]
    print(*[holder.getsockname()[1] for holder in holders], flush=True)
    signal.pause()


if __name__ == "__main__":
    main()
