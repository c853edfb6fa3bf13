"""MPI: how a process joins a job, how it waits and makes progress, and where its windows lie."""
