"""The machine as a picture: cores in the colours of their workers, memories with their shares."""
