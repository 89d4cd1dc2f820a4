"""The options of a rendered page.

=============  ============================================================================================
render         ``auto``: fetched as it is, and rendered only if that is a shell without the text (learned);
               ``always``
wait           a CSS selector that must be there before the page is read
click          CSS selectors that are clicked, one after the other, before it is read
login          name of a file of cookies and storage, ``NAME.json`` in the folder ``[browser] logins``
logged_in      a CSS selector that is there only while the login is good
screenshot     true: the copy is a picture of the page
=============  ============================================================================================

``change``, ``selector``, ``ignore`` and ``links`` are as for other pages. Without them the text counts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from unstale.errors import InvalidInput
from unstale.mirror.source import Json
from unstale.mirror.sources.http.fingerprint import ChangeDefinition, definition_of
from unstale.mirror.sources.http.options import OPTIONS as OPTIONS_OF_PAGES
from unstale.mirror.sources.http.options import check_options as check_options_of_pages
from unstale.mirror.sources.option_values import truth

OPTIONS = ("render", "wait", "click", "login", "logged_in", "screenshot")
_MOST_CLICKS = 10
_MOST_SELECTOR_CHARACTERS = 500


@dataclass(frozen=True, slots=True)
class RenderOptions:
    """How a page is rendered."""

    always: bool = False
    wait: str | None = None
    click: tuple[str, ...] = ()
    login: str | None = None
    logged_in: str | None = None
    screenshot: bool = False
    definition: ChangeDefinition = ChangeDefinition("text", "body")  # noqa: RUF009  (it is frozen)

    @classmethod
    def of(cls, options: Mapping[str, Json]) -> RenderOptions:
        """Return what options say, or raise `InvalidInput`.

        >>> RenderOptions.of({"render": "always", "click": "#more"}).click
        ('#more',)
        """
        for name in options:
            known = (*OPTIONS, *OPTIONS_OF_PAGES)
            if name not in known and (near := get_close_matches(name, known, n=1, cutoff=0.75)):
                raise InvalidInput(f"{name!r} is not an option of rendered pages; did you mean {near[0]!r}?")
        check_options_of_pages({name: value for name, value in options.items() if name not in OPTIONS})
        render = options.get("render", "auto")
        if render not in {"auto", "always"}:
            raise InvalidInput(f"render must be auto or always; it is {render!r}")
        clicks = options.get("click", [])
        clicks = [clicks] if isinstance(clicks, str) else clicks
        if not isinstance(clicks, list) or len(clicks) > _MOST_CLICKS:
            raise InvalidInput(f"click must be CSS selectors, {_MOST_CLICKS} at most; it is {clicks!r}")
        login = options.get("login")
        if login is not None and not (isinstance(login, str) and re.fullmatch(r"[\w-]{1,64}", login)):
            raise InvalidInput(f"login must be a name of letters, digits, _ and -; it is {login!r}")
        logged_in = _selector("logged_in", options.get("logged_in"))
        if logged_in is not None and login is None:
            raise InvalidInput('logged_in says whether a login is good; say which: login = "NAME"')
        wait = _selector("wait", options.get("wait"))
        plain = definition_of(
            {k: v for k, v in options.items() if k in {"change", "selector", "ignore", "threshold"}}
        )
        said = options.keys() & {"change", "selector"}
        definition = plain if said else ChangeDefinition("text", "body", plain.ignore)
        screenshot = truth("screenshot", options.get("screenshot", False))
        acts = bool(wait or clicks or login or screenshot)
        return cls(
            render == "always" or acts, wait, tuple(str(_selector("click", one)) for one in clicks),
            login, logged_in, screenshot, definition,
        )  # fmt: skip


def _selector(name: str, value: Json) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str) or not value.strip() or len(value) > _MOST_SELECTOR_CHARACTERS:
        raise InvalidInput(f"{name} must be a CSS selector, such as '#more'; it is {value!r}"[:300])
    return value
