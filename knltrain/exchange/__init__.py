"""How parameters and gradients reach other workers: rules, transports, and what carries the bytes.

rule, easgd, averaging, downpour, outer_step, ...   the arithmetic (`ExchangeRule`)
method, participation                               when, and in which overlap with computing
transport, node_shared, across_nodes,               where the center lives (`Transport`)
    one_sided_center, grouped, loopback
segment, collectives, soft_memory, words, visiting  the memory of one node
node_collective, wire, oneccl, mpi, gathering       between nodes, when all meet
remote_memory, gaspi, tree_exchange                 between nodes, one-sided
reduction                                           sums that go on while a script computes
"""
