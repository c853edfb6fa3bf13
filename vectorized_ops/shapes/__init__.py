"""Shapes of operations, the same for every implementation, and their costs."""

from vectorized_ops.shapes.activation import *
from vectorized_ops.shapes.channels import *
from vectorized_ops.shapes.convolution import *
from vectorized_ops.shapes.dense import *
from vectorized_ops.shapes.elementwise import *
from vectorized_ops.shapes.normalisation import *
from vectorized_ops.shapes.operation import *
from vectorized_ops.shapes.pooling import *
from vectorized_ops.shapes.training import *
from vectorized_ops.shapes.windows import *
