"""Buffers that other processes read, write and add to (ShmCaffe's Soft Memory Box)."""
