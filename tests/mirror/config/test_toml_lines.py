"""The line of each table, key and entry, against `tomllib` and against who wrote the text."""

import tomllib

from hypothesis import given
from hypothesis import strategies as st

from unstale.mirror.config.toml_lines import line_numbers

BARE = st.from_regex(r"[A-Za-z0-9_-]{1,4}", fullmatch=True)
ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
KEYS = BARE | ANY
SCALARS = st.sampled_from(
    ["1", "-2.5e3", "true", "nan", "0x1F", "1979-05-27 07:32:00", "07:32:00", '"#[]{},="', "'''x\n#[y]\n'''",
     '"""a \\""" b\n[c]\n"" d"""', '""""x""""', "''''x''''", "'c:\\'", '"\\\\"', '"\\u0041"']
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda entries: ("array", entries))
        | st.dictionaries(KEYS, inner, max_size=3).map(lambda entries: ("table", entries))
    ),
    max_leaves=6,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=3)
DOCUMENTS = st.dictionaries(KEYS, TABLES | st.lists(TABLES, min_size=1, max_size=3), max_size=4)


class Writer:
    """Writes a document in one of many ways, and keeps the line of all that it writes."""

    def __init__(self, draw):
        self.draw, self.text, self.lines = draw, "", {}

    def here(self, toml_path):
        self.lines.setdefault(toml_path, self.text.count("\n") + 1)

    def space(self, choices=("", " ", "\t ")):
        self.text += self.draw(st.sampled_from(choices))

    def key(self, name):
        bare = name.isascii() and name.replace("-", "").replace("_", "").isalnum()
        if bare and self.draw(st.booleans()):
            self.text += name
        elif name.isprintable() and "'" not in name and self.draw(st.booleans()):
            self.text += f"'{name}'"
        else:
            self.text += '"' + "".join(f"\\U{ord(letter):08x}" for letter in name) + '"'

    def value(self, toml_path, value):
        if isinstance(value, str):
            self.text += value
            return
        kind, entries = value
        self.text += "[" if kind == "array" else "{"
        lined = kind == "array"
        gaps = ("", " ", "\n", " # no ] here\n\n") if lined else ("", " ")
        self.space(gaps)
        for i, entry in enumerate(entries):
            inner = (*toml_path, i if lined else entry)
            self.here(inner)
            if lined:
                self.value(inner, entry)
            else:
                self.key(entry)
                self.space()
                self.text += "="
                self.space()
                self.value(inner, entries[entry])
            self.space(gaps)
            if i < len(entries) - 1:
                self.text += ","
                self.space(gaps)
        self.text += "]" if lined else "}"

    def table(self, toml_path, name, table, *, many):
        self.text += "[[" if many else "["
        self.space()
        self.here(toml_path[:1])
        self.here(toml_path)
        self.key(name)
        self.space()
        self.text += "]]" if many else "]"
        self.end()
        for key, value in table.items():
            self.space()
            self.here((*toml_path, key))
            self.key(key)
            self.space()
            self.text += "="
            self.space()
            self.value((*toml_path, key), value)
            self.end()

    def end(self):
        self.space(("\n", " # [x] = 'y'\n", "\n\n", "\r\n"))

    def document(self, document):
        self.space(("", "\n", "# comment\n"))
        for name, tables in document.items():
            if isinstance(tables, list):
                for i, table in enumerate(tables):
                    self.table((name, i), name, table, many=True)
            else:
                self.table((name,), name, tables, many=False)
        return self.text


def walked(value, toml_path=()):
    """Return all line_numbers of what `tomllib` read."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, entry in inside:
        yield (*toml_path, name)
        yield from walked(entry, (*toml_path, name))


@given(st.data())
def test_every_place_has_its_line(data):
    writer = Writer(data.draw)
    text = writer.document(data.draw(DOCUMENTS))
    found = line_numbers(text)
    assert set(found) == set(walked(tomllib.loads(text)))
    assert found == writer.lines


def test_dotted_keys_and_tables_in_arrays_of_tables():
    text = 'a.b."c.d" = 1\n[[x]]\n[x.y]\nz = 1\n[[x.w]]\n[[x.w]]\nv=[1,\n 2]\n[[x]]\ny = {p.q = 1}\n'
    found = line_numbers(text)
    assert set(found) == set(walked(tomllib.loads(text)))
    wanted = {("a", "b", "c.d"): 1, ("x", 0, "y", "z"): 4, ("x", 0, "w", 1): 6, ("x", 0, "w", 1, "v", 1): 8}
    assert {toml_path: found[toml_path] for toml_path in wanted} == wanted
    assert found["x", 1, "y", "p", "q"] == 10
