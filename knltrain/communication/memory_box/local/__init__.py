"""The Soft Memory Box of ShmCaffe: memory that processes of one node share by keys.

One process makes a box; others connect to it by its address. All of them make buffers, and open the
buffers of others by their keys. Operations on buffers are one-sided: no other process takes part. A
parameter server needs no more than that (SEASGD):

    box = SoftMemoryBox.create(2**30)              # the master
    center = box.create_buffer(packed_size)        # its key, and the box's address, go to workers

    box = SoftMemoryBox.connect(address)           # a worker
    center, own = box.open(key), box.create_buffer(packed_size)
    center.read(weights); own.write(increment); center.accumulate(own); center.notify()

Ahn, Kim, Kang, Lim, "ShmCaffe: a distributed deep learning platform with shared memory buffer for
HPC architecture", ICDCS 2018; the vector operations and events are those of its patent.
"""

from knltrain.communication.memory_box.local.box import SoftMemoryBox
from knltrain.communication.memory_box.local.buffer import Buffer

__all__ = ["Buffer", "SoftMemoryBox"]
