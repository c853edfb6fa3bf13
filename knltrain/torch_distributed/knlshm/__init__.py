"""The backend ``knlshm``: ranks of one computer exchange tensors through shared memory."""

from knltrain.torch_distributed.knlshm.process_group import BACKEND, KnlshmProcessGroup
from knltrain.torch_distributed.knlshm.rendezvous import create_process_group

__all__ = ["BACKEND", "KnlshmProcessGroup", "create_process_group"]
