"""How processes reach each other: shared memory, rendezvous, collectives, MPI, oneCCL, GASPI."""
