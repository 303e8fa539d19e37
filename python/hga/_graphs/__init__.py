"""Graphs, hierarchies over them, and what one does with these without torch."""
