"""How the data of a file get into memory: mapped, or read ahead page by page."""

from headrace.compat.ffcv.memory_managers.base import MemoryContext, MemoryManager
from headrace.compat.ffcv.memory_managers.os_cache import OSCacheManager
from headrace.compat.ffcv.memory_managers.process_cache import ProcessCacheManager

__all__ = ["MemoryContext", "MemoryManager", "OSCacheManager", "ProcessCacheManager"]
