"""Makes Python classes from Stripline's IDL for the package `cyclonedds`. The package's own IDL
compiler is not in every wheel."""

from __future__ import annotations

import pathlib
import re
import sys
import types

IDL = pathlib.Path(__file__).resolve().parents[3] / "crates/stripline-dds-sys/idl/Stripline.idl"
NAMES = {
    "unsigned long long": "uint64",
    "double": "float64",
    "float": "float32",
    "short": "int16",
    "octet": "uint8",
}


def python_type(idl: str) -> str:
    element = re.fullmatch(r"sequence<(.*)>", idl)
    return f"sequence[{python_type(element[1])}]" if element else NAMES.get(idl, idl)


def translate(idl: str) -> str:
    """Returns the text of a module with a class for each structure."""
    idl = re.sub(r"//.*", "", idl)
    module = re.search(r"module\s+(\w+)", idl)[1]
    lines = [
        "from dataclasses import dataclass",
        "from cyclonedds.idl import IdlStruct, annotations",
        "from cyclonedds.idl.types import float32, float64, int16, sequence, uint8, uint64",
    ]
    for name, body in re.findall(r"struct\s+(\w+)\s*\{([^}]*)\}", idl):
        lines += ["@dataclass", "@annotations.final", f'class {name}(IdlStruct, typename="{module}.{name}"):']
        for field in filter(None, (part.strip() for part in body.split(";"))):
            kind, field_name = field.rsplit(None, 1)
            lines.append(f"    {field_name}: {python_type(kind)}")
    return "\n".join(lines)


def load() -> types.ModuleType:
    """Returns the module."""
    module = sys.modules.setdefault("stripline_types", types.ModuleType("stripline_types"))
    # Annotations are evaluated, unlike in this file.
    text = compile(translate(IDL.read_text()), str(IDL), "exec", dont_inherit=True)
    exec(text, module.__dict__)  # noqa: S102
    return module
