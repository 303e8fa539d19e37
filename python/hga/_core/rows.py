"""Of these modules: the names go where they are now once all who import them follow."""

from .call import are_nodes as are_nodes, in_words as in_words, lifted as lifted, lowered as lowered
