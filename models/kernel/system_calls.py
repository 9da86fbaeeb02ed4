"""The operating system of one node: what its calls cost, who sleeps, and its file systems.

A thread that has to wait for a device sleeps; its core is free meanwhile. The completion interrupts, and the thread
goes on once the scheduler has let it.
"""

from __future__ import annotations

from ..storage.aio import AioContext
from ..storage.blocks import Blocks
from ..storage.files import FileSystem
from ..storage.nvme import Drive
from ..storage.queues import Queue
from .machine import Machine


class Kernel:
    """The operating system of one machine."""

    def __init__(self, node: Machine) -> None:
        self.node = node
        self.parameters = node.system.platform.kernel
        self._drives: dict[str, Drive] = {}
        self._file_systems: dict[str, FileSystem] = {}

    def drive(self, name: str) -> Drive:
        """The drive that is the node's memory device of that name. Raises KeyError if it is none."""
        found = self._drives.get(name)
        if found is None:
            device, system = self.node.memory[name], self.node.system
            parameters = system.platform.drives[device.kind]
            blocks = Blocks(system.ordering, device, parameters.atomic_bytes, self.parameters.stable_pages)
            found = self._drives[name] = Drive(system.clock, self.node.host, parameters, blocks)
        return found

    def queue(self, name: str, depth: int | None = None) -> Queue:
        """A queue of a drive for one program, polled, without the kernel on its way."""
        drive = self.drive(name)
        return Queue(drive, depth or drive.parameters.queue_depth, self.parameters.block_ps)

    def aio(self, depth: int) -> AioContext:
        """A context for asynchronous I/O of ``depth`` commands (io_setup(2))."""
        return AioContext(self.parameters, depth)

    def file_system(self, name: str) -> FileSystem:
        """The file system on a drive."""
        found = self._file_systems.get(name)
        if found is None:
            drive = self.drive(name)
            queue = Queue(drive, drive.parameters.queue_depth, self.parameters.block_ps)
            found = self._file_systems[name] = FileSystem(self.node.system.clock, self.parameters, queue)
        return found
