"""Pages read ahead into memory of the process, for files that do not fit into memory."""

from headrace.compat.ffcv.memory_managers.process_cache.context import ProcessCacheContext
from headrace.compat.ffcv.memory_managers.process_cache.manager import ProcessCacheManager

__all__ = ["ProcessCacheContext", "ProcessCacheManager"]
