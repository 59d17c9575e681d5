"""Record which public names each module of a package has, and where those that it imports come from.

Usage: python record_names.py FOLDER-OF-THE-PACKAGE OUT.json [LEFT-OUT-MODULE...]
Nothing is imported: the modules are parsed. Names that stand below ``if TYPE_CHECKING`` are not there when a program
runs, and names that begin with an underscore are private.
"""
import ast
import json
import sys
from pathlib import Path


def statements(body):
    """What runs when a module is imported, also inside ``if`` and ``try``."""
    for node in body:
        if isinstance(node, ast.If) and ast.unparse(node.test) != "TYPE_CHECKING":
            yield from statements(node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from statements(node.body)
        else:
            yield node


def source_of(node, module, is_package):
    """The full name of the module that a ``from`` statement reads."""
    if not node.level:
        return node.module
    parts = module.split(".")
    kept = parts[: len(parts) - node.level + is_package]
    return ".".join([*kept, *([node.module] if node.module else [])])


def names_in(path, module):
    """Names, each with the dotted place it is imported from, or None for what the module defines."""
    found = {}
    for node in statements(ast.parse(path.read_text()).body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                whole = alias.name if alias.asname else alias.name.partition(".")[0]
                found[alias.asname or whole] = whole
        elif isinstance(node, ast.ImportFrom) and node.module != "__future__":
            source = source_of(node, module, path.name == "__init__.py")
            found |= {alias.asname or alias.name: f"{source}.{alias.name}" for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = None
        elif isinstance(node, ast.Assign):
            found |= {target.id: None for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = None
    return {name: found[name] for name in sorted(found) if not name.startswith("_")}


def main():
    folder, out, left_out = Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    modules = {}
    for path in sorted(folder.rglob("*.py")):
        parts = (folder.name, *path.relative_to(folder).with_suffix("").parts)
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if not any(module == name or module.startswith(f"{name}.") for name in left_out):
            modules[module] = names_in(path, module)
    text = json.dumps(modules, indent=1, sort_keys=True)
    Path(out).write_text(text + "\n")


main()
