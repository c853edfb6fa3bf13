"""How processes reach each other; nothing here knows of training.

shared_memory  pages, atomics and waiting on one node, and who is alive
rendezvous     how processes find each other, and learn that one has failed
collectives    collective operations of the processes of one node
internode      sums and copies over one process of each node, and their formats on the wire
reduction      sums that go on while a script computes
memory_box     buffers that others read, write and add to (ShmCaffe's Soft Memory Box)
mpi, oneccl    those libraries
gaspi          one-sided memory with notifications, as CaffeGPI has it
"""
