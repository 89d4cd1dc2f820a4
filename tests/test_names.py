"""One name, one thing: no two classes share a name, but a value and its description in the API."""

import ast
from collections import defaultdict
from pathlib import Path

import unstale

SOURCE = Path(unstale.__file__).parent
DESCRIPTIONS = SOURCE / "dashboard" / "api" / "models.py"


def test_a_class_name_means_one_thing():
    places = defaultdict(list)
    for file in SOURCE.rglob("*.py"):
        if file != DESCRIPTIONS:
            for node in ast.parse(file.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(file.relative_to(SOURCE)))
    assert {name: files for name, files in places.items() if len(files) > 1} == {}
