"""The methods of exchange beside each other, each in real runs on the same images."""
