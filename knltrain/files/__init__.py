"""Files of a run folder on disks that fill up, break, or lose their power."""
