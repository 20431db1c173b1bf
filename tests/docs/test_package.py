"""The package as a whole: imports and their direction, file sizes, and whether what it says runs."""

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import nacre

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src" / "nacre").rglob("*.py"))

# A folder imports from its own rank and from those above it.
RANKS = [
    ["_version", "_util", "io"],
    ["wiring"],
    ["native"],
    ["layer", "functional"],
    ["certificates", "models", "nn", "signals"],
    ["data"],
    ["tasks"],
    ["train"],
    ["inspect", "deploy"],
    ["study", "drive", "bearings", "bench", "demo", "doctor", "estimators"],
    ["cli", "__main__"],
]


def module_name(path):
    parts = path.relative_to(ROOT / "src").with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def rank_of(module):
    """Rank of `nacre.<folder>...`."""
    folder = module.split(".")[1]
    return next(i for i, folders in enumerate(RANKS) if folder in folders)


def runtime_imports(path):
    """Modules imported when the code runs: everything but blocks under TYPE_CHECKING."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((f"{node.module}.{a.name}" if node.module == "nacre" else node.module) for a in node.names)


def test_imports_point_one_way():
    assert len(RANKS) < 12
    wrong = [
        f"{module_name(path)} imports {imported}"
        for path in SOURCES
        if module_name(path) != "nacre"  # the public list
        for imported in runtime_imports(path)
        if imported.startswith("nacre.") and rank_of(imported) > rank_of(module_name(path))
    ]
    assert wrong == []


def test_the_direction_test_sees_imports():
    attention = ROOT / "src" / "nacre" / "layer" / "attention.py"
    assert {"nacre.layer.pairs", "nacre.wiring.wiring", "torch"} <= set(runtime_imports(attention))
    assert rank_of("nacre.wiring.wiring") < rank_of("nacre.layer.attention") < rank_of("nacre.cli")


def test_folders_stay_small():
    package = ROOT / "src" / "nacre"
    assert len([p for p in package.iterdir() if p.is_file()]) <= 10
    sizes = {f: len([p for p in f.iterdir() if p.is_file()]) for f in package.rglob("*") if f.is_dir()}
    assert [f for f, size in sizes.items() if size > 20 and f.name not in ("models", "__pycache__")] == []


def test_import_is_light():
    code = (
        "import sys, torch; before = set(sys.modules); import nacre; "
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    new = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    third_party = {n for n in new if "cython" not in n} - set(sys.stdlib_module_names) - {"nacre", "numpy"}
    assert third_party == set(), f"import nacre also imports {third_party}"


def test_files_stay_small():
    assert [path for path in SOURCES if len(path.read_text().splitlines()) > 400] == []


def test_public_names():
    names = {n for n in vars(nacre) if not n.startswith("_")}
    public = {"NAC", "NACConfig", "NACEncoder", "NCPCell", "SensoryGate", "Backbone", "Wiring", "Trace"}
    public |= {"StreamState", "Certificate", "ModelInfo", "TaskNetwork", "functional", "data", "inspect", "models"}
    public |= {
        "RecurrentState",
        "export",
        "certify",
        "save",
        "load",
        "create",
        "list_models",
        "model_info",
        "check_model",
    }
    assert public <= names
    assert {n for n in names - public if type(vars(nacre)[n]).__name__ != "module"} == set()


def test_no_public_class_name_occurs_twice():
    places = {}
    for path in SOURCES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module_name(path))
    assert len(places) > 100
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


MODULES = [m.name for m in pkgutil.walk_packages(nacre.__path__, "nacre.")]


@pytest.mark.slow
def test_docstring_examples_run(tmp_path):
    import ncps.wirings  # noqa: F401  makes `ncps` resolve below

    known = {"torch": torch, "nacre": nacre, "ncps": sys.modules["ncps"], "tmp": tmp_path, "NAC": nacre.NAC}
    known |= {"backbone_wiring": nacre.wiring.builders.backbone_wiring}
    known |= {"sensory_wiring": nacre.wiring.builders.sensory_wiring}
    results = {name: doctest.testmod(importlib.import_module(name), extraglobs=known) for name in MODULES}
    assert [name for name, result in results.items() if result.failed] == []
    assert sum(result.attempted for result in results.values()) > 300


def test_docstring_examples_exist():
    assert nacre.NAC.__doc__.count(">>>") >= 3
