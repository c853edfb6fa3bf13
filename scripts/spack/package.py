"""The Spack package py-knltrain, built from a checkout.

In a Spack repository of the site's own this file is packages/py_knltrain/package.py, and then

    spack dev-build --source-path CHECKOUT py-knltrain@0.1.0
"""

# ruff: noqa: F403, F405 (Spack's own way)
from spack.package import *
from spack_repo.builtin.build_systems.python import PythonPackage


class PyKnltrain(PythonPackage):
    """Training convolutional networks on many-core CPUs by elastic averaging between workers."""

    license("Apache-2.0")

    version("0.1.0")

    variant("mpi", default=True, description="One-sided MPI between nodes")

    depends_on("python@3.10:", type=("build", "run"))
    depends_on("py-setuptools@77:", type="build")

    with default_args(type=("build", "run")):
        depends_on("py-click@8.1:")
        depends_on("py-lmdb@1.6:")
        depends_on("py-matplotlib@3.8:")
        depends_on("py-numba@0.61:")
        depends_on("py-numpy@1.26:")
        depends_on("py-pillow@10.2:")
        depends_on("py-pydantic@2.7:")
        depends_on("py-rich@13.7:")
        depends_on("py-safetensors@0.4.3:")
        depends_on("py-simplejpeg@1.7:")
        depends_on("py-tensorboard@2.16:")
        depends_on("py-tomli@2.0:", when="^python@:3.10")
        depends_on("py-tomli-w@1.0:")
        depends_on("py-torch@2.8:2.13")
        depends_on("py-xxhash@3.4:")
        depends_on("py-mpi4py@4.0:", when="+mpi")

    # Found where it is loaded, and not needed: it tells what the kernel's own files do not.
    depends_on("hwloc", type="run")
