"""Wire formats of vectors between nodes: fewer bytes for slow links."""
