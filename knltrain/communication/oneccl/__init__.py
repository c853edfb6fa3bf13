"""oneCCL by its C interface through ctypes: collective operations of processes on any nodes.

The interface is that of NCCL (onecclGetUniqueId, onecclCommInitRank, onecclAllReduce ...) on memory
of the host. The library never reports that a peer is gone: the caller must watch its peers.
"""

from knltrain.communication.oneccl.communicator import Communicator, unique_id
from knltrain.communication.oneccl.library import MISSING, installed

__all__ = ["MISSING", "Communicator", "installed", "unique_id"]
