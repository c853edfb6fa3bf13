"""A whole Slurm in a folder of its own: munged, slurmctld and a slurmd for each of its nodes.

    unshare --pid --fork --kill-child --mount-proc python daemons.py

Prints one line of JSON when all nodes are idle, and ends them all when its input ends, which it
also does if whoever holds the other end is killed. As the first process of a namespace it takes
with it whatever is left of jobs; before that it removes the folder and the control groups of jobs.

Partition "bound" (the default) has a node on which Slurm binds tasks by masks alone, with
task/affinity, "two" that one and another of its kind, "confined" one on which each job is also in a
cpuset of its own, with task/cgroup, and "all" has all. All nodes are this machine, each with all of
its cpus. Slurm takes two devices of "bound" and of "second" for GPUs, and tells jobs of them.
"""

from __future__ import annotations

import json
import os
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

CPUSETS = Path("/sys/fs/cgroup/cpuset")
"""Where control groups of version 1 are. Slurm's plugin for version 2 wants a systemd that gives it
a part of the tree, or the root of it, and of neither can a test be sure."""

FEATURES = "quad,flat,bigmem"
PATIENCE_SECONDS = 30.0

CONFIGURATION = """\
ClusterName=tests
SlurmctldHost=localhost
SlurmctldPort={controller_port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
GresTypes=gpu
TaskPlugin={task_plugin}
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
# A job that comes while its node is being freed would else wait up to a minute.
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
KillWait=10
DebugFlags=NO_CONF_HASH
StateSaveLocation={folder}/state
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdSpoolDir={folder}/spool-%n
{nodes}
PartitionName=bound Nodes={bound} Default=YES MaxTime=INFINITE
PartitionName=confined Nodes={confined} MaxTime=INFINITE
PartitionName=two Nodes={bound},{second} MaxTime=INFINITE
PartitionName=all Nodes={bound},{second},{confined} MaxTime=INFINITE
"""
GPUS = """\
NodeName={bound},{second} Name=gpu File=/dev/null
NodeName={bound},{second} Name=gpu File=/dev/zero
"""
CGROUPS = f"CgroupMountpoint={CPUSETS.parent}\nConstrainCores=yes\n"


def main() -> None:
    """Start it, tell where it is, wait until it is no longer needed, end it."""
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    folder.chmod(0o755)  # Munge insists that others can get to its socket.
    # Control groups are named after nodes, and there may be tests beside these.
    nodes = {kind: f"{kind}-{secrets.token_hex(4)}" for kind in ("bound", "second", "confined")}
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        configure(folder, nodes)
        start(folder, nodes, daemons)
        print(json.dumps({"folder": str(folder), "confined": confines()}), flush=True)
        wait_for_end_of_input()
    finally:
        end(folder, nodes, daemons)


def wait_for_end_of_input() -> None:
    """Meanwhile do what a first process is there for: take note of the end of orphans."""
    while not select.select([sys.stdin], [], [], 0.2)[0]:
        with suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def confines() -> bool:
    """Whether Slurm can be let to make cpusets here."""
    return os.access(CPUSETS / "cgroup.procs", os.W_OK) and os.access(CPUSETS, os.W_OK)


def configure(folder: Path, nodes: dict[str, str]) -> None:
    """Write a configuration for all, and one with cpusets for the node that confines its jobs."""
    told = subprocess.run(["slurmd", "-C"], capture_output=True, text=True, check=True).stdout
    hardware = told.splitlines()[0].partition(" ")[2]
    ports = free_ports(1 + len(nodes))
    lines = [
        f"NodeName={name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={port} "
        f"Feature={FEATURES} {hardware}{'' if kind == 'confined' else ' Gres=gpu:2'}"
        for (kind, name), port in zip(nodes.items(), ports[1:], strict=True)
    ]
    plugins = {"slurm": "task/affinity", "slurm-confined": "task/cgroup,task/affinity"}
    for file, plugin in plugins.items():
        text = CONFIGURATION.format(
            folder=folder,
            controller_port=ports[0],
            task_plugin=plugin,
            nodes="\n".join(lines),
            **nodes,
        )
        (folder / f"{file}.conf").write_text(text)
    (folder / "cgroup.conf").write_text(CGROUPS)
    (folder / "gres.conf").write_text(GPUS.format(**nodes))
    (folder / "state").mkdir()
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")


def free_ports(number: int) -> list[int]:
    """Ports that nobody listens at; held all at once, so that they differ."""
    sockets = [socket.socket() for _ in range(number)]
    for held in sockets:
        held.bind(("127.0.0.1", 0))
    ports = [int(held.getsockname()[1]) for held in sockets]
    for held in sockets:
        held.close()
    return ports


def start(folder: Path, nodes: dict[str, str], daemons: list[subprocess.Popen[bytes]]) -> None:
    """Start all daemons and wait until every node can take jobs."""
    subprocess.run(["mungekey", "--create", f"--keyfile={folder}/munge.key"], check=True)
    munged = ["munged", "--foreground", f"--key-file={folder}/munge.key"]
    for option, file in {
        "socket": "munge.socket",
        "pid-file": "munged.pid",
        "log-file": "munged.log",
        "seed-file": "munged.seed",
    }.items():
        munged.append(f"--{option}={folder}/{file}")
    commands = [munged, ["slurmctld", "-D"]]
    commands += [["slurmd", "-D", "-N", nodes[kind]] for kind in ("bound", "second")]
    if confines():
        file = str(folder / "slurm-confined.conf")
        commands.append(["slurmd", "-D", "-N", nodes["confined"], "-f", file])
    deadline = time.monotonic() + PATIENCE_SECONDS
    for command in commands:
        with (folder / f"{len(daemons)}-{command[0]}.out").open("wb") as out:
            daemons.append(
                subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
            )
        while command is munged and not (folder / "munge.socket").exists():
            wait_a_little(folder, daemons, deadline)
    while idle_nodes() < len(commands) - 2:
        wait_a_little(folder, daemons, deadline)


def idle_nodes() -> int:
    """How many nodes the controller knows to be ready."""
    told = subprocess.run(
        ["sinfo", "--noheader", "--Node", "--partition=all", "--format=%T"],
        capture_output=True,
        text=True,
    )
    return told.stdout.split().count("idle")


def wait_a_little(folder: Path, daemons: list[subprocess.Popen[bytes]], deadline: float) -> None:
    """Let the daemons go on; RuntimeError with what they said if one has ended, or time is up."""
    if time.monotonic() > deadline or any(daemon.poll() is not None for daemon in daemons):
        said = "\n".join(f"{log.name}:\n{log.read_text()}" for log in folder.glob("*.out"))
        raise RuntimeError(f"Slurm could not be started\n{said}")
    time.sleep(0.05)


def end(folder: Path, nodes: dict[str, str], daemons: list[subprocess.Popen[bytes]]) -> None:
    """End the daemons, then all jobs, and remove what they leave."""
    for daemon in reversed(daemons):
        daemon.terminate()
        try:
            daemon.wait(5)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()
    with suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)  # To all in this namespace but this first process.
    with suppress(ChildProcessError):
        while True:
            os.wait()
    for name in nodes.values():
        for group in sorted(CPUSETS.glob(f"slurm_{name}/**/"), reverse=True):
            group.rmdir()
    shutil.rmtree(folder)


if __name__ == "__main__":
    if os.getpid() != 1:  # What it kills in the end would be this machine.
        sys.exit("daemons.py: start it as the first process of a namespace, with unshare --pid")
    main()
