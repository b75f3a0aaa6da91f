"""TCP proxies of loopback that damage what goes through them: one for each link of a run.

A link is what one process reaches another by, through all its connections. On each, six things can happen:
    flip        one bit of the next bytes that go a way of chance is another
    duplicate   for some time all bytes are sent twice
    stall       for some time nothing goes either way
    cut         its connections break
    delay       for some time all bytes come so much later
    mute        for some time new connections are accepted, and nothing is ever answered on them
"""

import asyncio
import collections
import os
import random
import socket
import struct
import threading
import time

READ_BYTES = 64 * 1024
HEAD_BYTES = 2
CONNECTIONS_MAX = 1024
DELAY_S = 0.5  # of each piece: a slow link, too
BREAK = struct.pack("ii", 1, 0)  # SO_LINGER: close sends a reset

Harm = collections.namedtuple("Harm", "time link what")


def now():
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Link:
    """The pending faults of a link."""

    def __init__(self, name, rng):
        self.name, self.rng = name, rng
        self.flips = [0, 0]  # pending flips by direction
        self.flip_every, self.flip_next = None, None
        self.duplicates_until = self.stalls_until = self.delays_until = self.mute_until = 0.0
        self.connections = set()

    def damage(self, data, direction):
        """The bytes as they come out, and whether a bit was flipped."""
        if self.flip_every is not None and now() >= self.flip_next:
            self.flip_next = now() + self.flip_every
            self.flips[self.rng.randrange(2)] += 1
        if now() < self.duplicates_until:
            data += data
        if self.flips[direction] == 0:
            return data, False
        self.flips[direction] -= 1
        damaged = bytearray(data)
        # Half of the flips hit a place where a ZeroMQ message may begin, with flags and length, and so break more.
        end = min(len(data), self.rng.choice([HEAD_BYTES, READ_BYTES]))
        damaged[self.rng.randrange(end)] ^= 1 << self.rng.randrange(8)
        return bytes(damaged), True


class Proxies:
    """All of a run, on one thread of their own. What is called here may be called from any other."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.links = {}
        self.harms = []  # the harms so far; flips only if they met a byte
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()

    def listen(self, name_of):
        """A proxy without a target yet. name_of: the link's name, by the port of the process that has
        connected. Returns a function that sets its target, and its address."""
        target = []

        async def begin():
            return await asyncio.start_server(
                lambda reader, writer: self._serve(name_of, target, reader, writer),
                "127.0.0.1", 0, limit=READ_BYTES)

        server = asyncio.run_coroutine_threadsafe(begin(), self.loop).result()
        port = server.sockets[0].getsockname()[1]
        return target.append, f"127.0.0.1:{port}"

    def link(self, name):
        return self.links.setdefault(name, Link(name, self.rng))

    def flip_every(self, wanted, seconds):
        """From now on each link whose name is wanted, and each new one, has a bit flipped so often."""
        def begin():
            self.auto_flip = (wanted, seconds)
            for link in self.links.values():
                self._flip_every(link)
        self.loop.call_soon_threadsafe(begin)

    auto_flip = None

    def _flip_every(self, link):
        if self.auto_flip is None or link.flip_every is not None:
            return
        wanted, seconds = self.auto_flip
        if wanted(link.name):
            link.flip_every = seconds
            link.flip_next = now() + self.rng.uniform(0, seconds)

    def harm(self, name, what, seconds=0.0):
        def act():
            link = self.link(name)
            if what == "flip":
                link.flips[self.rng.randrange(2)] += 1
                return
            self.harms.append(Harm(now(), name, what))
            if what == "duplicate":
                link.duplicates_until = now() + seconds
            elif what == "stall":
                link.stalls_until = now() + seconds
            elif what == "delay":
                link.delays_until = now() + seconds
            elif what == "mute":
                link.mute_until = now() + seconds
            elif what == "cut":
                for writer in list(link.connections):
                    self._break(writer)
        self.loop.call_soon_threadsafe(act)

    def heal(self):
        """Nothing more happens."""
        def act():
            self.auto_flip = None
            for link in self.links.values():
                link.flips, link.flip_every = [0, 0], None
                link.duplicates_until = link.stalls_until = link.delays_until = link.mute_until = 0.0
        self.loop.call_soon_threadsafe(act)

    @staticmethod
    def _break(writer):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, BREAK)
        writer.transport.abort()

    async def _serve(self, name_of, target, reader, writer):
        link = self.link(name_of(writer.get_extra_info("peername")[1]))
        self._flip_every(link)
        there = None
        try:
            if not target or len(link.connections) >= CONNECTIONS_MAX:
                return self._break(writer)
            if now() < link.mute_until:
                link.connections.add(writer)
                while await reader.read(READ_BYTES):  # until the other end gives up, or it is cut
                    pass
                return None
            host, port = target[-1].rsplit(":", 1)
            back, there = await asyncio.open_connection(host, int(port), limit=READ_BYTES)
            link.connections |= {writer, there}
            both = [asyncio.ensure_future(self._pump(link, 0, reader, there)),
                    asyncio.ensure_future(self._pump(link, 1, back, writer))]
            # The end of one direction is passed on, and the other direction gets some time.
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(both, timeout=5)
            for each in both:
                each.cancel()
        except OSError:
            self._break(writer)
        finally:
            link.connections -= {writer, there}
            for each in (writer, there):
                if each is not None:
                    each.close()

    async def _pump(self, link, direction, reader, writer):
        try:
            while data := await reader.read(READ_BYTES):
                while now() < link.stalls_until:
                    await asyncio.sleep(link.stalls_until - now())
                if now() < link.delays_until:
                    await asyncio.sleep(DELAY_S)
                data, flipped = link.damage(data, direction)
                if flipped:
                    self.harms.append(Harm(now(), link.name, "flip"))
                writer.write(data)
                await writer.drain()
            writer.write_eof()
        except OSError:
            self._break(writer)


def owner_of(port, pids):
    """The name of the worker, of {name: its pid}, that has connected from this port of loopback."""
    place = f"0100007F:{port:04X}"
    inode = None
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        with open(table, encoding="ascii") as lines:
            for line in lines:
                fields = line.split()
                if fields[1].endswith(place):
                    inode = fields[9]
    for name, pid in pids.items():
        folder = f"/proc/{pid}/fd"
        try:
            if any(os.readlink(f"{folder}/{fd}") == f"socket:[{inode}]" for fd in os.listdir(folder)):
                return name
        except OSError:
            continue  # the process has ended, or closed the file
    return "nobody"
