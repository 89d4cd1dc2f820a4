"""The API keeps to its own description, whatever it is asked; schemathesis does the asking."""

import threading
import time
import warnings

import pytest
import requests
import uvicorn
from hypothesis import HealthCheck, Phase, assume, given, settings

from unstale import Mirror
from unstale.dashboard.access_rules import AccessRules
from unstale.dashboard.app import create_app
from unstale.dashboard.mirror_gateway import MirrorGateway
from unstale.mirror.settings import Settings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # it uses what others have deprecated
    import schemathesis
    from schemathesis import GenerationMode, checks

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")

CHECKS = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]
WITHOUT_TOKEN = {"/healthz"}
REFUSALS = {400, 401, 404, 405, 413, 414, 415, 429}
"""What a request without the token may get: nothing of the mirror."""
LONGEST_ADDRESS = 60_000
"""Characters: the server cuts off longer ones, and who still sends may not see its answer."""


TOKEN = "a token for schemathesis"  # noqa: S105


@pytest.fixture(scope="module", params=[None, TOKEN], ids=["open", "token"])
def served(tmp_path_factory, request):
    """Return the description of a dashboard, where it is served, and the token that it wants."""
    store = tmp_path_factory.mktemp("mirror") / "mirror.db"
    texts = {f"page {i}": iter(f"version {n}\n" * i for n in range(100)) for i in range(1, 6)}
    with Mirror(store, settings=Settings(budget=1000.0)) as mirror:
        for name, versions in texts.items():
            mirror.add(f"python:{name}", poll=lambda versions=versions: next(versions))
        for _ in range(3):
            mirror.step()
        with mirror.store.begin() as t:  # somebody polls, so that all is well
            t.alive("elsewhere:1", time.time(), time.time() + 3600)
    app = create_app(MirrorGateway(Mirror(store)), AccessRules(token=request.param))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="error", lifespan="on"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    yield app.openapi(), f"http://127.0.0.1:{port}", request.param
    server.should_exit = True
    thread.join(10)


def ask(served, mode, examples, *, derandomize):
    document, address, token = served
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    schema = schemathesis.openapi.from_dict(document)
    asked = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @settings(
            max_examples=examples,
            deadline=None,
            database=None,
            derandomize=derandomize,
            suppress_health_check=list(HealthCheck),
            phases=[Phase.generate],
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def keeps_to_it(case):
            sent = requests.Request(case.method, address + case.formatted_path, params=case.query).prepare()
            assume(len(sent.url or "") < LONGEST_ADDRESS)
            case.call_and_validate(base_url=address, headers=headers, checks=CHECKS)
            if token is not None and case.path not in WITHOUT_TOKEN:
                for wrong in (
                    {},
                    {"Authorization": "Bearer " + "x" * 24},
                    {"Cookie": f"unstale-token={token}"},
                ):
                    assert case.call(base_url=address, headers=wrong).status_code in REFUSALS, case.path

        try:
            keeps_to_it()
        except Exception as error:
            if type(error).__name__ != "Unsatisfiable":  # there is no wrong way to ask for this
                raise
        asked += 1
    assert asked > 15


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_the_api_is_as_described(served, mode):
    ask(served, mode, 6, derandomize=True)


@pytest.mark.long
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_the_api_is_as_described_by_many_requests(served, mode):
    ask(served, mode, 200, derandomize=False)


def test_every_number_has_its_unit_or_meaning(served):
    document, *_ = served
    for name, schema in document["components"]["schemas"].items():
        for field, said in schema.get("properties", {}).items():
            kinds = {one.get("type") for one in said.get("anyOf", [said])}
            if kinds & {"number", "integer"}:
                assert said.get("description"), f"{name}.{field}"


def test_operations_have_names_and_words(served):
    document, *_ = served
    names = [said["operationId"] for path in document["paths"].values() for said in path.values()]
    assert len(names) == len(set(names))
    for path in document["paths"].values():
        for said in path.values():
            assert said["description"]
            assert "200" in said["responses"]
