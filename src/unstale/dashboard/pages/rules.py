"""The page of rules: those of mirror.toml, which it only shows, and those that are made and edited here.

What is made here stands in the store. It comes behind the rules of mirror.toml, so that it counts more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated
from urllib.parse import parse_qs

from fastapi import APIRouter, Form, Request
from starlette.exceptions import HTTPException
from starlette.responses import RedirectResponse, Response

from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.errors import InvalidInput, MissingExtra
from unstale.mirror.additions import check_given
from unstale.mirror.config.values import patterns
from unstale.mirror.mirror import Mirror
from unstale.mirror.secrets import without_secrets
from unstale.mirror.settings import Rule
from unstale.mirror.source import Json
from unstale.mirror.sources.http.fingerprint import check_content_options
from unstale.mirror.stored_rules import STORED_FIELDS, STORED_OPTIONS, rule_json, rule_of

from .edit_element import edits_of, read, shown

_MOST_RULES = 200


def add_rule_pages(routes: APIRouter, gateway: MirrorGateway, render: Callable[..., Response]) -> None:
    """Add the pages to the routes."""

    async def page(
        edit: int = 0, said: Mapping[str, str] | None = None, complaint: str = "", changed: int | None = None
    ) -> Response:
        rules, latest = await gateway.do(lambda mirror: (edits_of(mirror).rules(), edits_of(mirror).latest()))
        if not 0 <= edit <= len(rules):
            raise HTTPException(404, f"there is no rule {edit} here")
        fields = {"match": ""} | dict.fromkeys((*STORED_FIELDS, *STORED_OPTIONS), "")
        if edit:
            fields |= _as_fields(rules[edit - 1])
        return render(
            "rules.html", 422 if complaint else 200,
            written=[_told(rule) for rule in gateway.mirror.settings.rules],
            rules=[_told(rule) for rule in rules],
            shown=fields | dict(said or {}), edit=edit, complaint=complaint, latest=latest, changed=changed,
            now=gateway.mirror.clock.now(),
        )  # fmt: skip

    @routes.get("/rules")
    async def show(edit: int = 0, changed: int | None = None) -> Response:
        return await page(edit, changed=changed)

    @routes.post("/rules")
    async def save(request: Request) -> Response:
        body = parse_qs((await request.body()).decode("utf-8", "replace"), keep_blank_values=True)
        said = {name: values[-1] for name, values in body.items()}
        number = said.pop("edit", "0")
        edit = int(number) if number.isdecimal() and len(number) < 6 else 0

        try:
            changed = await gateway.change(lambda mirror: _put(mirror, edit, said))
        except (InvalidInput, MissingExtra) as error:
            there = edit if edit <= len(await gateway.do(lambda mirror: edits_of(mirror).rules())) else 0
            return await page(there, {name: said.get(name, "") for name in _NAMES}, str(error))
        return RedirectResponse(f"/rules?changed={changed}", 303)

    @routes.post("/rules/{number}/remove")
    async def remove(number: int, was: Annotated[str, Form()]) -> Response:
        try:
            changed = await gateway.change(lambda mirror: _take_away(mirror, number, was))
        except InvalidInput as error:
            return await page(0, None, str(error))
        return RedirectResponse(f"/rules?changed={changed}", 303)


_NAMES = ("match", *STORED_FIELDS, *STORED_OPTIONS)


def _put(mirror: Mirror, number: int, said: Mapping[str, str]) -> int:
    """Add a rule, or change the one with the number; return how many elements are another way now."""
    rule, edits = _rule(said), edits_of(mirror)
    rules = list(edits.rules())
    if number:
        _check_there(rules, number, said.get("was", ""))
        rules[number - 1] = rule
    elif len(rules) >= _MOST_RULES:
        raise InvalidInput(f"there may be {_MOST_RULES} rules here; write others into mirror.toml")
    else:
        rules.append(rule)
    words = f"{'change' if number else 'add'} the rule for {rule.match[:200]}"
    return edits.set_rules(rules, mirror.clock.now, words=words)


def _take_away(mirror: Mirror, number: int, was: str) -> int:
    """Remove a rule; return how many elements are another way now."""
    edits = edits_of(mirror)
    rules = list(edits.rules())
    _check_there(rules, number, was)
    gone = rules.pop(number - 1)
    return edits.set_rules(rules, mirror.clock.now, words=f"remove the rule for {gone.match[:200]}")


def _check_there(rules: list[Rule], number: int, was: str) -> None:
    """Raise `InvalidInput` if the rule with the number is not the one that was shown."""
    if not 0 < number <= len(rules) or rules[number - 1].match != was:
        raise InvalidInput("somebody has edited the rules meanwhile: look at them again")


def _rule(said: Mapping[str, str]) -> Rule:
    """Return the rule that the fields of the form say, or raise `InvalidInput`."""
    given = {name: value for name in STORED_FIELDS if (value := read(name, said.get(name, ""))) is not None}
    options: dict[str, Json] = {
        name: value for name in STORED_OPTIONS if (value := read(name, said.get(name, ""))) is not None
    }
    check_given(given)
    if options:
        check_content_options(options)
    match = said.get("match", "").strip()
    if not match:
        raise InvalidInput("for which elements? write a pattern of their keys, such as https://example.org/*")
    if not given and not options:
        raise InvalidInput("the rule says nothing: fill in a field")
    every: dict[str, Json] = {"match": patterns("match", match), **given}
    if options:
        every["options"] = options
    return rule_of(every)


def _as_fields(rule: Rule) -> dict[str, str]:
    """Return a rule as it stands in the fields of the form."""
    said = rule_json(rule)
    options = said.pop("options", {})
    every = {**said, **(options if isinstance(options, dict) else {})}
    return {name: shown(name, value) for name, value in every.items()}


def _told(rule: Rule) -> dict[str, object]:
    """Return a rule as a line of the page: its pattern, and what it says; secrets are left out."""
    bare = replace(rule, options=without_secrets(rule.options))
    said = rule_json(bare)
    options = said.pop("options", {})
    more: dict[str, Json] = {
        name: value
        for name in ("objective", "target", "jitter", "windows")
        if (value := getattr(rule, name)) is not None
    }
    every = {**said, **more, **(options if isinstance(options, dict) else {})}
    match = every.pop("match")
    words = [f"{name} {shown(name, value)}".replace("\n", ", ") for name, value in every.items()]
    return {"match": match, "words": words}
