"""Texts of ``--help`` besides the options: first commands, and other tools' equivalents."""

from __future__ import annotations

WORDS = {
    "show": "the machine: its cores and memories, and how they are known",
    "plan": "which cores and which memory each worker would get, and why",
    "check": "does it work here: limits, policies, settings, surprises",
    "run": "start a command once for each worker, each in its place",
    "snapshot": "keep what the kernel tells of this machine in a file, for --machine",
}

DESCRIPTION = "\n".join(
    (
        "The cores and memories of this machine, and places for your workers.\n\ncommands:",
        *(f"  {word:<10} {told}" for word, told in WORDS.items()),
    )
)

EXAMPLES = """\
begin with
  python -m affinity show
  python -m affinity plan --workers numa
  python -m affinity run --workers numa -- ./train --rank {rank}

Every command has its own --help; that of plan names the options of run_cpu, ipexrun, mpirun,
srun, likwid and numactl beside ours.
"""

OTHER_TOOLS = """\
you know                                       type
  run_cpu --ninstances 4, mpirun -n 4            --workers 4
  run_cpu --ncores-per-instance 8, srun -c       --cores-per-worker 8
  run_cpu --throughput-mode, mpirun ppr:1:numa   --workers numa
  run_cpu --latency-mode                         --workers fit --cores-per-worker 4
  run_cpu --use-logical-core, srun --hint        --threads-per-core 2
  ipexrun --strategy scatter, likwid scatter     --strategy scatter
  run_cpu --core-list, ipexrun --cores-list      --cpus 0-31
  run_cpu --node-id, ipexrun --nodes-list        --nodes 0,1
  srun --cpu-bind=map_cpu, mpirun pe-list        --cpus-by-rank 0-7:8-15
  ipexrun --ccl-worker-count 4                   --communication-cores 4
  ipexrun --logical-cores-for-ccl                --communication-on-siblings
  srun --core-spec 2                             --os-cores 2
  numactl --preferred=2, srun --mem-bind=prefer  (the default: --policy spill)
  numactl --membind=2, srun --mem-bind=map_mem   --policy strict
  numactl --membind=0 (not HBM)                  --policy strict --memory dram
  numactl --weighted-interleave=0,2              --policy weighted
  run_cpu --rank, ipexrun --instance-idx         run --rank 2
  mpirun --report-bindings                       run --report-bindings
  mpirun --tag-output                            run --tag
  ipexrun --memory-allocator tcmalloc            run --preload tcmalloc
"""

RUN_EXAMPLES = """\
In CMD and --env these are filled in: {rank} {workers} {cpus} {threads} {nodes} {memory};
nodes are those of the cores, memory those that the kernel is told.

  python -m affinity run --workers 4 --tag -- python train.py --rank {rank} --of {workers}
  python -m affinity run --workers 4 --env RANK={rank} --env WORLD_SIZE={workers} -- ./train
  srun -n 4 --cpu-bind=none --mem-bind=none \\
      python -m affinity run --workers 4 --rank auto -- ./train

The first rank that fails ends all, and its status is that of run. Signals are passed on. However
run ends, even killed, it leaves no process behind.
"""
