"""The same work as ``ffcv_program``, written for this package; the same questions and answers.

usage: python -m headrace.bench.peers.headrace_program '{"path": "x.beton", "kind": "plain", "order": "random"}'
No checksum is compared, as FFCV has none, unless ``verify`` is among the facts.
"""

from __future__ import annotations

import json
import sys
import time

from headrace.loader import Loader
from headrace.ops import Cutout, RandomHorizontalFlip, RandomTranslate

__all__ = ["main"]


def main() -> None:
    """Answer until there are no more questions."""
    facts = json.loads(sys.argv[1])
    moves = [RandomHorizontalFlip(), RandomTranslate(2), Cutout(8)]
    loader = Loader(
        facts["path"],
        512,
        order=facts["order"],
        workers=1,
        drop_last=False,
        verify=bool(facts.get("verify")),
        pipelines={"image": moves} if facts["kind"] == "moved" else {},
    )
    for _ in sys.stdin:
        start_s = time.perf_counter()
        samples = sum(len(batch[0]) for batch in loader)
        print("\n" + json.dumps({"seconds": time.perf_counter() - start_s, "samples": samples}), flush=True)


if __name__ == "__main__":
    main()
