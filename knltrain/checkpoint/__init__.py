"""Checkpoints of a run, from which it goes on bit for bit as if it had never stopped.

A checkpoint is a folder `checkpoint-<step>`, named after the run's step:

- `center.safetensors`: the model, one named tensor per parameter;
- `worker-<rank>.safetensors`: a worker's packed local, the state of its optimizer, and how many
  steps it has done itself;
- `state.json`.

It is written under a temporary name and renamed when complete, and renamed again before it is
removed, so a writer never leaves a partial folder of that name. Each file has a digest of its
content, which detects damage on the disk.
"""
