"""A store of one's own: the client publishes with a WRITE, and READs back what it wrote so that it is durable.

The idea is the appliance persistency method: with DDIO off, a READ behind a WRITE pushes it to the memory controller.
It has a bug.
"""

from typing import ClassVar

from rpsim.protocols.parts.index import ENTRY_BYTES, Entry, HashIndex, Location
from rpsim.protocols.parts.kv import KvClient, KvScheme, KvServer, Region


class Toy(KvScheme, name="toy"):
    """Two WRITEs a put, a READ behind the first."""

    title = "write, read back, publish by a WRITE"
    paper = "nobody's"
    section = "a toy"
    claims: ClassVar = {}

    class Client(KvClient):
        def put(self, session, key, value):
            region = yield from self.write_object(session, key, value)
            yield from session.connection.read(self.server.log + region.offset, session.log_key, 8)
            yield from self.publish(session, key, Location(region.offset, region.length))

        def publish(self, session, key, location):
            address, length = self.server.index.neighbourhood(key)
            entries = yield from session.connection.read(address, session.index_key, length)
            turn, _ = HashIndex.find(key, entries)
            word = address + turn * ENTRY_BYTES + Entry.offset_of("location")
            yield from session.connection.write(word, session.index_key, location.pack().to_bytes(8, "little"))
            return word

    class Server(KvServer):
        def on_allocate(self, thread, request):
            location = self.allocate(request.length)
            yield from thread.compute()
            return Region.pack(offset=location.offset, length=location.length)


class Mended(Toy, name="toy-mended"):
    """A READ behind the second as well."""

    title = "the same with what was forgotten"

    class Client(Toy.Client):
        def publish(self, session, key, location):
            word = yield from super().publish(session, key, location)
            yield from session.connection.read(word, session.index_key, 8)
