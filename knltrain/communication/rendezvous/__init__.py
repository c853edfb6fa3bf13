"""The rendezvous of the processes of a run, and the failure detector between them."""
