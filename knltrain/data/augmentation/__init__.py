"""How pictures become a network's images: crops, sizes, flips, colours, normalisation, mixing."""
