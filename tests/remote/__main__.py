"""The S3 server and the proxy by hand: ``python -m tests.remote FOLDER [--latency-ms 20]``, until its input ends.

Prints one line of JSON: where it answers, and the keys. Each folder in FOLDER is a bucket.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.remote.fault_proxy import FaultProxy
from tests.remote.rclone_server import ACCESS_KEY, SECRET_KEY, RcloneServer


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.remote", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--latency-ms", type=float, default=0.0, help="added to every answer")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as own:
        server = RcloneServer(options.folder, Path(own), remember_s=3600)
        server.start()
        proxy = FaultProxy(server.port, options.folder)
        proxy.latency_s = options.latency_ms / 1e3
        proxy.start()
        facts = {"endpoint": proxy.url, "access_key_id": ACCESS_KEY, "secret_access_key": SECRET_KEY}
        print(json.dumps(facts), flush=True)
        sys.stdin.read()
        proxy.stop()
        server.stop()


if __name__ == "__main__":
    main()
