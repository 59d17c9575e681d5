"""Loaders around torch's DataLoader that stream from an object store: WebDataset, LitData, MosaicML Streaming.

``options`` of a Place say how the store is reached (``store``), the bucket and the prefix there, and an empty folder
for what is kept (``cache``). Packages are imported before the time of an epoch begins.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch.utils.data

from headrace.bench.peers.torch_loaders import (
    LitDataLoader,
    MosaicLoader,
    WebDatasetLoader,
    cropped_by,
    import_streaming,
)

if TYPE_CHECKING:
    from headrace.bench.peers.contender import Place

__all__ = ["LitDataStore", "MosaicStore", "WebDatasetStore"]

_REGION = "us-east-1"
_SHUFFLED = 1000


class WebDatasetStore(WebDatasetLoader):
    """Tars through curl, the command that its documentation names for HTTP."""

    def __init__(self, place: Place) -> None:
        import webdataset  # noqa: F401

        super().__init__(place)

    def make(self, **options: Any) -> Any:
        """Tars in shuffled order, and a buffer."""
        import webdataset

        names = sorted(path.name for path in Path(self.place.folder).glob("*.tar"))
        urls = [f"pipe:curl -s -L '{self._signed(name)}'" for name in names]
        crop = self.crop
        shards = webdataset.WebDataset(urls, shardshuffle=len(urls)).shuffle(_SHUFFLED).to_tuple("jpg;jpeg")
        batches = shards.map(lambda sample: crop(sample[0])).batched(self.place.batch, collation_fn=np.stack)
        return torch.utils.data.DataLoader(batches, batch_size=None, **options)

    def _signed(self, name: str) -> str:
        import obstore
        from obstore.store import S3Store

        told = self.place.options
        store = S3Store(told["bucket"], region=_REGION, client_options={"allow_http": True}, **told["store"])
        return str(obstore.sign(store, "GET", f"{told['prefix']}/{name}", timedelta(hours=1)))


class LitDataStore(LitDataLoader):
    """Chunks, kept in a folder."""

    def __init__(self, place: Place) -> None:
        import litdata.streaming

        super().__init__(place)
        litdata.streaming.downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = True  # there is no other way to say it

    def make(self, **options: Any) -> Any:
        """Shuffled by its own order."""
        import litdata
        from litdata.streaming.resolver import Dir

        told = self.place.options
        reached = {
            "endpoint_url": told["store"]["endpoint"],
            "aws_access_key_id": told["store"]["access_key_id"],
            "aws_secret_access_key": told["store"]["secret_access_key"],
            "region_name": _REGION,
        }
        place = Dir(path=told["cache"], url=f"s3://{told['bucket']}/{told['prefix']}")
        photographs = cropped_by(self.crop, litdata.StreamingDataset)(
            place, shuffle=True, drop_last=False, storage_options=reached, max_cache_size="20GB"
        )
        return litdata.StreamingDataLoader(photographs, batch_size=self.place.batch, **options)


class MosaicStore(MosaicLoader):
    """MDS, kept in a folder."""

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        import_streaming()
        store = place.options.get("store", {})
        os.environ["S3_ENDPOINT_URL"] = store.get("endpoint", "")
        os.environ["AWS_ACCESS_KEY_ID"] = store.get("access_key_id", "")
        os.environ["AWS_SECRET_ACCESS_KEY"] = store.get("secret_access_key", "")
        os.environ["AWS_DEFAULT_REGION"] = _REGION

    def make(self, **options: Any) -> Any:
        """Shuffled by its own order."""
        streaming, told = import_streaming(), self.place.options
        streaming.base.util.clean_stale_shared_memory()
        photographs = cropped_by(self.crop, streaming.StreamingDataset)(
            remote=f"s3://{told['bucket']}/{told['prefix']}",
            local=told["cache"],
            shuffle=True,
            batch_size=self.place.batch,
        )
        return torch.utils.data.DataLoader(photographs, batch_size=self.place.batch, **options)
