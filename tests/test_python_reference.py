"""The reference of the Python interface is written from the code: every public name, with its signature.

``python tests/test_python_reference.py`` writes the page.
"""

import inspect
import re
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType

import unstale

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "python.md"
MODULES = {
    "unstale": "The names that most programs need.",
    **{
        f"unstale.{name}": ""
        for name in unstale.__all__
        if isinstance(getattr(unstale, name), ModuleType) and name != "mirror"
    },
    "unstale.mirror.settings": "",
    "unstale.mirror.source": "",
}
"""The modules whose names are public, and what the page says of them if not their first line."""

ABOUT = """# Python interface

Every public name, by the module from which it is imported. Rates, budget and frequencies share one unit of
time, and you choose it; a mirror counts in seconds. Arrays may be given wherever numbers may. Every error is
an `unstale.errors.UnstaleError`.
"""


def public_names(module):
    """Return the public names of a module that are no modules themselves."""
    return [name for name in module.__all__ if not isinstance(getattr(module, name), ModuleType)]


def first_paragraph(text):
    return " ".join(re.split(r"\n\s*\n", inspect.cleandoc(text or ""))[0].split())


def signature_of(value, name):
    """Return how a function is called, or nothing where that says nothing."""
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    parameters = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in signature.parameters.values()
        if parameter.name not in {"self", "cls"}
    ]
    text = f"{name}{signature.replace(parameters=parameters, return_annotation=inspect.Signature.empty)}"
    text = re.sub(r"<[^<>]* at 0x[0-9a-f]+>|<factory>|<class '[\w.]*'>", "...", text)
    if len(text) > 110:
        inner = ",\n".join(f"    {parameter}" for parameter in parameters)
        text = re.sub(r"<[^<>]* at 0x[0-9a-f]+>|<factory>", "...", f"{name}(\n{inner},\n)")
    text = re.sub(r"(=\w+\()[^()]{80,}\)", r"\1...)", text)
    return text.replace("'", '"')  # as the formatter writes it


def docstring_of(value):
    """Return a docstring as text of the page: sections become bold words, examples code."""
    text = inspect.getdoc(value) or ""
    text = re.sub(r"^([A-Z][\w ]+)\n-{3,}$", r"**\1**\n", text, flags=re.MULTILINE)
    lines, inside = [], False
    for line in text.split("\n"):
        if line.startswith(">>>") and not inside:
            lines.append("```python")
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(re.sub(r"``([^`]+)``", r"`\1`", line) if not inside else line)
    return "\n".join([*lines, "```"] if inside else lines).strip()


def members_of(cls):
    """Return rows about the public methods, properties and fields of a class."""
    rows = []
    for name, member in sorted(vars(cls).items()):
        if name.startswith("_") or inspect.isclass(member):
            continue
        plain = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if isinstance(plain, property) or type(plain).__name__ == "cached_property":
            about = getattr(plain, "fget", None) or getattr(plain, "func", None)
            rows.append((name, first_paragraph(about.__doc__)))
        elif inspect.isfunction(plain):
            rows.append((" ".join(signature_of(plain, name).split()), first_paragraph(plain.__doc__)))
    return rows


def entry(module, name):
    """Return what the page says of one name."""
    value = getattr(module, name)
    lines = [f"### {module.__name__}.{name}", ""]
    if inspect.isclass(value) or inspect.isfunction(value):
        shown = (
            "" if inspect.isclass(value) and issubclass(value, BaseException) else signature_of(value, name)
        )
        if shown and not getattr(value, "_is_protocol", False):
            lines += ["```python", shown, "```", ""]
        own = value.__doc__ or ""
        if not (is_dataclass(value) and own.startswith(f"{name}(")):
            lines += [docstring_of(value), ""]
        if inspect.isclass(value) and (rows := members_of(value)):
            cells = [(code, text.replace("|", "\\|").replace("``", "`")) for code, text in rows]
            lines += ["| member | meaning |", "|---|---|"]
            lines += [f"| `{code.replace('|', chr(92) + '|')}` | {text} |" for code, text in cells]
            lines.append("")
    else:
        lines += [f"`{type(value).__name__}`", ""]
    return lines


def page():
    """Return the whole page. A name that is public in two places is told in the first one."""
    lines, told = [ABOUT], set()
    for path, about in MODULES.items():
        module = import_module(path)
        names = [
            name for name in public_names(module) if not any(getattr(module, name) is one for one in told)
        ]
        lines += [f"## {path}", "", about or first_paragraph(module.__doc__), ""]
        for name in names:
            told.add(id(getattr(module, name)))
            lines += entry(module, name)
    text = "\n".join(lines)
    return re.sub(r"\n{3,}", "\n\n", text).rstrip() + "\n"


def test_the_reference_is_as_the_code():
    assert PAGE.read_text("utf-8") == page()


def test_every_public_name_is_in_the_reference_and_is_explained():
    headings = re.findall(r"^### unstale[\w.]*\.(\w+)$", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    for path in MODULES:
        module = import_module(path)
        for name in public_names(module):
            assert name in headings
            value = getattr(module, name)
            if inspect.isclass(value) or inspect.isfunction(value):
                assert value.__doc__, f"{path}.{name} has no docstring"


def described_alone(value):
    """Tell whether the arguments of a class are its fields, which are documented one by one."""
    return is_dataclass(value) or issubclass(value, tuple) or getattr(value, "_is_protocol", False)


def callables_of(value):
    """Return a function, or a class with its public methods, if they are called with arguments."""
    if inspect.isfunction(value):
        return [value]
    if not inspect.isclass(value) or issubclass(value, BaseException):
        return []
    methods = [one for name, one in vars(value).items() if inspect.isfunction(one) and name[0] != "_"]
    return methods if described_alone(value) else [value, *methods]


def test_more_than_three_arguments_are_explained_one_by_one():
    bare = []
    for path in MODULES:
        module = import_module(path)
        for name in public_names(module):
            for one in callables_of(getattr(module, name)):
                arguments = [argument for argument in inspect.signature(one).parameters if argument != "self"]
                if len(arguments) > 3 and "Parameters\n---" not in (inspect.getdoc(one) or ""):
                    bare.append(f"{path}.{one.__qualname__}")
    assert bare == []


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")
