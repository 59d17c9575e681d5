"""Many calls on a barecat module, with what they gave, as JSON: usage ``barecat_calls.py MODULE SEED FOLDER``.

Run with the original and with the drop-in; the same seed must give the same lines.
"""

import hashlib
import importlib
import json
import os
import pathlib
import random
import sys
import warnings

warnings.simplefilter("ignore")
barecat = importlib.import_module(sys.argv[1])
rng = random.Random(int(sys.argv[2]))
folder = sys.argv[3]
NAMES = ["a", "b", ".h", "c.txt", "d.json"]


def path() -> str:
    return "/".join(rng.choice(NAMES) for _ in range(rng.randint(1, 3)))


def blob() -> bytes:
    return rng.randbytes(rng.choice([0, 1, 5, 40, 300, 5000]))


def is_free(bc, name) -> bool:
    """A file of this name can be added; where not, what the original leaves in the shard depends on its buffer."""
    above = ["/".join(name.split("/")[:count]) for count in range(1, name.count("/") + 1)]
    return not bc.exists(name) and not any(bc.isfile(one) for one in above)


def plain(value):
    if isinstance(value, bytes):
        return hashlib.sha256(value).hexdigest()[:12]
    if isinstance(value, barecat.BarecatFileInfo):
        return [value.path, value.shard, value.offset, value.size, value.crc32c, value.mode]
    if isinstance(value, barecat.BarecatDirInfo):
        return [value.path, value.num_subdirs, value.num_files, value.num_files_tree, value.size_tree, value.mode]
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return value


def in_order(values):
    return sorted((plain(one) for one in values), key=json.dumps)


def edit(bc, name, mode):
    with bc.open(name, mode) as file:
        done = []
        if "+" in mode and rng.random() < 0.5:
            done.append(file.read(rng.randint(0, 50)))
        for _ in range(rng.randint(1, 3)):
            if rng.random() < 0.4:
                done.append(file.seek(rng.randint(0, len(file))))
            done.append(file.write(rng.randbytes(rng.randint(1, 60))))
        if rng.random() < 0.2:
            done.append(file.truncate(rng.randint(0, len(file))))
        return done


PATTERNS = [
    "*",
    "**",
    "a/*",
    "a/**",
    "*/*",
    "**/*.txt",
    "**/.h",
    "?",
    "[ab]/*",
    "[!a]*",
    "a/**/c.txt",
    "*.json",
    "nope",
]


def change(bc):
    name, other = path(), path()
    mode = rng.choice(["wb", "ab", "r+b", "w+b", "xb", "a+b"])
    number = rng.randint(0, 0o777)
    data = blob() if is_free(bc, name) else b""
    fits = bc.isdir(other.rpartition("/")[0]) and not other.startswith(f"{name}/")
    return rng.choice(
        [
            ("set", lambda: bc.__setitem__(name, data)),
            ("set", lambda: bc.__setitem__(name, data)),
            ("add", lambda: bc.add(barecat.BarecatFileInfo(name, mode=number, mtime_ns=5), data=data)),
            ("add ok", lambda: bc.add(name, data=data, file_exist_ok=True)),
            ("mkdir", lambda: bc.mkdir(name, number)),
            ("del", lambda: bc.__delitem__(name)),
            ("remove", lambda: bc.remove(name)),
            ("rmdir", lambda: bc.rmdir(name)),
            ("rmtree", lambda: bc.rmtree(name)),
            ("rename", lambda: bc.rename(name, other) if fits else None),
            ("update", lambda: bc.update_file(name, data=blob())),
            ("open", lambda: edit(bc, name, mode) if bc.isfile(name) or is_free(bc, name) else None),
            ("chmod", lambda: bc.index.chmod(name, number)),
            ("setdefault", lambda: bc.setdefault(name, data)),
            ("pop", lambda: bc.pop(name, None)),
        ]
    )


def ask(bc):
    name, pattern = path(), rng.choice(PATTERNS)
    first, count = rng.randint(0, 50), rng.randint(-1, 50)
    recursive, hidden = rng.random() < 0.7, rng.random() < 0.5
    index = bc.index
    return rng.choice(
        [
            ("get", lambda: bc[name]),
            ("read", lambda: bc.read(name, first, count)),
            ("in", lambda: [name in bc, bc.exists(name), bc.isfile(name), bc.isdir(name)]),
            ("listdir", lambda: sorted(bc.listdir(name))),
            ("walk", lambda: in_order((d, sorted(s), sorted(f)) for d, s, f in bc.walk(name))),
            ("scandir", lambda: in_order(bc.scandir(name))),
            ("glob", lambda: [pattern, recursive, hidden, sorted(bc.glob(pattern, recursive, hidden))]),
            ("globfiles", lambda: [pattern, sorted(bc.globfiles(pattern, recursive, hidden))]),
            ("infos", lambda: [pattern, in_order(index.iterglob_infos("a/*", recursive, hidden))]),
            ("lookup", lambda: plain(index.lookup(name))),
            ("lookup_files", lambda: plain(index.lookup_files([name, path()]))),
            (
                "rules",
                lambda: in_order(index.iterglob_infos_incl_excl([("-", "**/*.txt"), ("+", "a/**")], only_files=True)),
            ),
            ("raw", lambda: sorted(index.raw_glob_paths("a*"))),
            ("order", lambda: plain(list(index.iter_all_fileinfos(barecat.Order.PATH | barecat.Order.DESC)))),
            ("address", lambda: [i.shard for i in index.iter_all_fileinfos(barecat.Order.ADDRESS)]),
            ("paths", lambda: list(index.iter_all_paths(barecat.Order.PATH))),
            ("all", lambda: plain(list(index.iter_all_infos(barecat.Order.PATH)))),
            ("sizes", lambda: [bc.num_files, bc.num_dirs, bc.total_size, len(bc), len(index), index.num_used_shards]),
            ("ends", lambda: [bc.logical_shard_end(n) for n in range(index.num_used_shards)]),
            ("items", lambda: in_order(bc.items())),
        ]
    )


def call(label, function):
    try:
        result = plain(function())
    except Exception as error:  # what is raised is what is compared
        result = "KeyError" if isinstance(error, KeyError) else type(error).__name__
    print(json.dumps([label, result]))


def rows(bc):
    columns = ["path", "shard", "offset", "size", "crc32c", "mode"]
    return [[getattr(i, c) for c in columns] for i in bc.index.iter_all_fileinfos(barecat.Order.PATH)]


archive = os.path.join(folder, "x.barecat")
for _ in range(3):
    with barecat.Barecat(archive, shard_size_limit=20_000, readonly=False) as bc:
        for _ in range(60):
            call(*change(bc))
            call(*ask(bc))
    with barecat.Barecat(archive) as bc:
        for _ in range(40):
            call(*ask(bc))
        call("rows", lambda: rows(bc))
        call("verified", bc.verify_integrity)
shards = sorted(path for path in pathlib.Path(folder).iterdir() if "-shard-" in path.name)
call("shards", lambda: [[shard.name, shard.read_bytes()] for shard in shards])
with barecat.Barecat(archive, readonly=False) as bc:
    call("freed", bc.defrag)
    call("rows", lambda: rows(bc))
