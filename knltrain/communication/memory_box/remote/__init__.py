"""The Soft Memory Box across nodes: ShmCaffe's parameter memory on MPI's one-sided windows.

The operations are those of the box within a node (`knltrain.communication.memory_box.local`). That
one is made by a process and found by its address; this one is made by all ranks of a communicator:

    box = RemoteBox.create(MPI.COMM_WORLD, 2**30, servers=[0, 1])
    center = box.create_buffer(packed_size)                 # one rank; its key goes to the others
    center, own = box.open(key), box.create_buffer(packed_size, private=True)
    center.read(weights); own.write(increment); center.accumulate(own); center.notify()

Passive target: no rank takes part in the operations of others on its memory. Ahn et al.,
"ShmCaffe", ICDCS 2018; MPI 4.1, chapter 12.
"""

from knltrain.communication.memory_box.remote.box import RemoteBox
from knltrain.communication.memory_box.remote.buffer import RemoteBuffer
from knltrain.communication.memory_box.remote.private_buffer import PrivateBuffer
from knltrain.communication.memory_box.remote.vector import Vector

__all__ = ["PrivateBuffer", "RemoteBox", "RemoteBuffer", "Vector"]
