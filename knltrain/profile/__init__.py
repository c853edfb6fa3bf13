"""Where the time of a training step goes: by stage and direction, by worker, and against bounds."""
