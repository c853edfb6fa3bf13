"""The stages of a plan: each is an operation bound to its arrays, forward and backward."""

from knltrain.backends.cpu.stages.channels import *
from knltrain.backends.cpu.stages.elementwise import *
from knltrain.backends.cpu.stages.merging import *
from knltrain.backends.cpu.stages.normalisation import *
from knltrain.backends.cpu.stages.pooling import *
from knltrain.backends.cpu.stages.stage import *
from knltrain.backends.cpu.stages.weighted import *
