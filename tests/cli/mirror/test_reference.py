"""The reference is written from the code: every command, every option, every key of mirror.toml.

``python tests/cli/mirror/test_reference.py`` writes the pages.
"""

import re
import textwrap
from pathlib import Path

import click
import pytest

from unstale.cli.program import _PARTS, cli
from unstale.mirror.config.keys import SECTIONS

HERE = Path(__file__).parents[3] / "docs" / "reference"


def as_text(paragraphs):
    """Return paragraphs of a docstring as those of a page."""
    parts = [part for part in re.split(r"\n\s*\n", paragraphs.strip()) if part.strip()]
    return "\n\n".join("\n".join(wrapped(part)) for part in parts)


def cell(text):
    """Return a text that can stand in a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def command_page(command, name, depth=2):
    """Return what the page says of a command and of those below it."""
    context = click.Context(command, info_name=name, **cli.context_settings)
    usage = " ".join(command.collect_usage_pieces(context))
    lines = [f"{'#' * depth} {name}", "", as_text(command.help), ""]
    if not isinstance(command, click.Group):
        lines += ["```", f"{name} {usage}", "```", ""]
    records = [param.get_help_record(context) for param in command.params if isinstance(param, click.Option)]
    if records:
        lines += ["| option | meaning |", "|---|---|"]
        lines += [f"| `{cell(option)}` | {cell(meaning)} |" for option, meaning in filter(None, records)]
        lines.append("")
    if command.epilog:
        examples = [line.strip() for line in command.epilog.splitlines() if line.startswith("  ")]
        joined = "\n".join(examples).replace("\\\n", "\\\n    ")
        lines += [
            "```console",
            *(f"$ {line}" if not line.startswith(" ") else line for line in joined.splitlines()),
        ]
        lines += ["```", ""]
    if isinstance(command, click.Group):
        for sub, inner in sorted(command.commands.items()):
            lines += command_page(inner, f"{name} {sub}", depth + 1)
    return lines


def commands_page():
    """Return the page of all commands."""
    about = """
        `unstale COMMAND --help` says the same. Every command fails with one line on standard error and exit
        code 2 if it cannot do what was asked. Times, amounts and shares have units: `90s`, `6h`, `2 weeks`,
        `1000/day`, `20MB/h`, `80%`.
    """
    lines = ["# Commands", "", *wrapped(about), ""]
    for part, commands in _PARTS.items():
        lines += [f"## {part}", ""]
        for command in commands:
            lines += command_page(command, f"unstale {command.name}", 3)
    return "\n".join(lines).rstrip() + "\n"


def toml_page():
    """Return the page of all keys."""
    about = """
        What a mirror keeps to. `unstale init` writes one with every key in it, `unstale doctor` checks it,
        and a key that is not in this list is an error that names the line. Times, amounts and shares have
        units and stand in quotes: `"90s"`, `"6h"`, `"2 weeks"`, `"1000/day"`, `"20MB/h"`, `"10%"`. Files and
        folders are meant relative to the folder of mirror.toml. A running mirror reads it when it starts.
    """
    lines = ["# mirror.toml", "", *wrapped(about), ""]
    for section in SECTIONS:
        lines += [f"## {section.heading}", "", *wrapped(section.about), ""]
        plain = [key for key in section.keys if not key.option]
        lines += keys_table(plain)
        if len(plain) < len(section.keys):
            lines += ["What sources understand can be said in the same place:", ""]
            lines += keys_table([key for key in section.keys if key.option])
    return "\n".join(lines).rstrip() + "\n"


def wrapped(text):
    return textwrap.wrap(" ".join(text.split()), 118, break_long_words=False, break_on_hyphens=False)


def keys_table(keys):
    rows = [
        f"| `{key.name}` | {cell(key.about)} | {cell(key.default)} | `{cell(key.example)}` |" for key in keys
    ]
    return ["| key | meaning | default | example |", "|---|---|---|---|", *rows, ""]


PAGES = {"commands.md": commands_page, "mirror-toml.md": toml_page}


@pytest.mark.parametrize("name", PAGES)
def test_the_reference_is_as_the_code(name):
    assert (HERE / name).read_text("utf-8") == PAGES[name]()


def test_every_command_and_option_is_there():
    text = (HERE / "commands.md").read_text("utf-8")
    for command in cli.commands.values():
        assert f"# unstale {command.name}\n" in text
        for param in command.params:
            if isinstance(param, click.Option) and not param.hidden:
                assert param.opts[0] in text
                assert param.help


def test_all_commands_of_the_mirror_have_the_same_two_options():
    groups = [getattr(command, "commands", {"": command}).values() for command in _PARTS["The mirror"]]
    for command in (command for group in groups for command in group):
        names = {option for param in command.params for option in param.opts}
        assert "--json" in names or command.name == "mcp"  # which speaks nothing else
        assert "--mirror" in names or command.name == "init"


if __name__ == "__main__":
    for page, written in PAGES.items():
        (HERE / page).write_text(written(), "utf-8")
