"""The Soft Memory Box of ShmCaffe: memory that processes of one node share by keys.

One process makes a box and lets others come to it by its address; all of them make buffers, open
those of others whose keys they were told, and work on them with one-sided operations: nobody on the
other side takes part. A parameter server needs no more than that (SEASGD):

    box = SoftMemoryBox.create(2**30)              # the master
    center = box.create_buffer(packed_size)        # its key, and the box's address, go to workers

    box = SoftMemoryBox.connect(address)           # a worker
    center, own = box.open(key), box.create_buffer(packed_size)
    center.read(weights); own.write(increment); center.accumulate(own); center.notify()

Ahn, Kim, Kang, Lim, "ShmCaffe: a distributed deep learning platform with shared memory buffer for
HPC architecture", ICDCS 2018; the vector operations and events are those that its patent lists.
"""

from knltrain.communication.memory_box.local.box import SoftMemoryBox
from knltrain.communication.memory_box.local.buffer import Buffer

__all__ = ["Buffer", "SoftMemoryBox"]
