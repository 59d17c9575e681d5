"""The web viewer: a server on this machine that shows datasets, and its pages.

``view`` opens datasets and serves them. Each page has a module with functions that turn a dataset into plain values,
and ``routes``, which ``app`` puts together; the pages themselves are in ``static``.
"""
