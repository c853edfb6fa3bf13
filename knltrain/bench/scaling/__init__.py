"""Weak and strong scaling of trainings on this machine."""
