"""A data set in the memories of several nodes, each with its part.

parts          which node holds which pictures; a node's part, read from the files
server         a node's door, at which others fetch pictures of its part
client         a connection to another node's door
window         the parts of all nodes as an MPI window, of which pictures are read
records        pictures of all parts, by number: from own memory or from peers
sources        the sources of a data set that lies so
staging        batches that are fetched ahead, by a thread of the worker that takes them
"""
