"""The schemas that an index may have: those of headrace, and of barecat 0.2 and 0.3.

Every table, index and trigger is named with digests of the statements that may define it.
"""

from __future__ import annotations

import hashlib

__all__ = ["KNOWN", "digest_of"]

_DIGITS = 32


def digest_of(text: object) -> str:
    """What stands for the statement that defines a table, an index or a trigger; SQLite's own indexes have none."""
    return hashlib.sha256(str(text or "").encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


KNOWN: dict[str, tuple[str, ...]] = {
    "index idx_dirs_parent": ("f5f440b535e718a9ed26c6381f3b42e4",),
    "index idx_dirs_path": ("76e0ff9b68202d5aefcd516a234c548c",),
    "index idx_files_parent": ("cc81ea623d29b953da3c842695effb13",),
    "index idx_files_path": ("eba4ce43b5f63c210c6cdeccfb854991",),
    "index idx_files_shard_offset": ("6d734f874413cce7e3101b9f045eb077",),
    "index sqlite_autoindex_dirs_1": ("e3b0c44298fc1c149afbf4c8996fb924",),
    "index sqlite_autoindex_files_1": ("e3b0c44298fc1c149afbf4c8996fb924",),
    "table config": (
        "a49e02298abee72fd3d2e13289b142ce",
        "e948cac2856c086a965f8dfdd342caf8",
        "1ad44f32ac32752a1e507dca7e860917",
    ),
    "table dirs": (
        "4362907c82a2507c9bbe0b65ae98bcf9",
        "49f3a28f19046f7d51f13f033005834e",
        "e153fd76254803cb8f92929b1dcbc6ae",
        "d4510679c2c1f433528de034f021c127",
    ),
    "table files": (
        "0caadbcf67cb960fa9c5116d98b78e78",
        "2efc3e445a303e6813c4c08a40228bea",
        "c1f5e6a2f2e8fd33b06cd4250c0316fc",
        "c251a1947fe62195fd2f3191ddd9e45e",
    ),
    "table sqlite_stat1": ("f3e5b16b86f359c3f77fe5635c1ed86b",),
    "table sqlite_stat4": ("aa0aa5dab7e2d7a84effeb3aaee29980",),
    "trigger add_file": ("7ab82c9c143e5510e053d94664f2fa8e", "b72b3b506b4e0e4aacbffbd8d963564d"),
    "trigger add_subdir": ("d603183e4ec7d7b173df51068c13bf1c", "ad477d0fe508cbaf208372b4fde3f95e"),
    "trigger del_file": ("100ce7da4523b4c46ce862492de6ff88", "365f089d94a5125e65faecf7910648b3"),
    "trigger del_subdir": (
        "b682e207b59d6fd98485664e8de1d82b",
        "fc2c370ed205412859e16cdd539ae874",
        "e4e233aa95a8f689239ba4658559d036",
    ),
    "trigger move_file": ("2d397003a1d7c9ad5fa8e476ca8fdc73", "4f23d6a04e4db5b2511105ef3abc1d37"),
    "trigger move_subdir": (
        "8ad4b555b5ca850cce307cf7d79559af",
        "01dfea8e21554112688a6b2108bf97da",
        "b03b0b36799cb9ada7e06a53bd8ab67e",
    ),
    "trigger prevent_dir_as_file": ("18cd9f0c36225b6409f13830a0661744", "eedb656a2317d0e654b1160ee11717d1"),
    "trigger prevent_file_as_dir": ("d1897c2dca59d5592bc4e428498f3ded", "7b6bf2b8f1bc7caa507e0b04f6eb523f"),
    "trigger resize_dir": ("dd18d4fd47c204850c046d12304b4a2d", "7e658dfb2ff813990f7667634362f6af"),
    "trigger resize_file": ("96478eae6fcf0a95fb191a768f3bd003", "2f34a86c9fc43438010fed3ca1b0e335"),
}
