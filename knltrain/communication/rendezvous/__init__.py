"""How the processes of a run find each other, and learn that one has failed."""
