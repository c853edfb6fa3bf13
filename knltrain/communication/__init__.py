"""Communication between processes; nothing here knows of training.

shared_memory  pages, atomics, polling, and liveness of processes on one node
rendezvous     how processes find each other, and the failure detector
collectives    collective operations of the processes of one node
internode      collective operations of one process of each node, and their wire formats
reduction      asynchronous sums: they go on while a script computes
memory_box     buffers that others read, write and add to (ShmCaffe's Soft Memory Box)
mpi, oneccl    bindings of those libraries
gaspi          one-sided memory with notifications, as CaffeGPI has it
"""
