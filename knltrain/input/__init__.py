"""Pictures once per node, and batches made ahead of the steps that take them.

node_data      the one copy of a data set in a node's memory
batch_feed     the seam: where a training step gets its batch from
batch_ring     the memory of batches made ahead: a ring of slots for each worker
batches_ahead  a worker's side of its ring
batch_pool     the threads that fill the rings
"""
