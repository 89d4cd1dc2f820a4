"""dbt, Dagster and Airflow start one run for a change of a table of PostgreSQL, and none without."""

import json
import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing, contextmanager, suppress
from socket import socket

import psycopg
import pytest
from sqlalchemy import make_url

from unstale import Mirror
from unstale.mirror.config.file import load

from .conftest import adapter, running_mirror, until, write_blocks

pytestmark = pytest.mark.postgres
QUICK = '[[group]]\nmatch = "*"\nspacing = "0s"\n'


@pytest.fixture
def shop(tmp_path, postgres_url):
    """What runs statements in a database with a table; the files of the page are in the folder."""
    write_blocks(
        "pipelines.md",
        tmp_path,
        database=("postgresql://reader@db.example.org/shop", postgres_url),
        budget=("60/min", "5/s"),
    )
    with closing(psycopg.connect(postgres_url, autocommit=True)) as connection:
        connection.execute("CREATE SCHEMA raw")
        connection.execute("CREATE TABLE raw.orders (id int PRIMARY KEY, total int)")
        connection.execute("INSERT INTO raw.orders VALUES (1, 10)")
        yield connection.execute


def changes_seen(mirror):
    return len(mirror.changes())


@pytest.mark.long
def test_dbt_builds_what_has_changed(tmp_path, shop, postgres_url):
    programs = adapter("dbt", "dbt.cli.main")
    address = make_url(postgres_url)
    profile = {
        "type": "postgres", "host": address.query["host"], "user": address.username, "password": "",
        "port": 5432, "dbname": address.database, "schema": "public", "threads": 1,
    }  # fmt: skip
    profiles = {"shop": {"target": "t", "outputs": {"t": profile}}}
    (tmp_path / "profiles.yml").write_text(json.dumps(profiles))
    said = {"name": "shop", "version": "1.0", "profile": "shop", "model-paths": ["models"]}
    (tmp_path / "dbt_project.yml").write_text(json.dumps(said))
    (tmp_path / "models").mkdir()
    (tmp_path / "sources.yml").rename(tmp_path / "models" / "sources.yml")
    (tmp_path / "models" / "report.sql").write_text("select sum(total) from {{ source('shop', 'orders') }}")
    environment = os.environ | {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "PYTHONWARNINGS": "ignore",
    }  # fmt: skip

    def build():
        """Return the models that were built."""
        results = tmp_path / "target" / "run_results.json"
        results.unlink(missing_ok=True)
        done = subprocess.run(
            ["/bin/sh", "build.sh"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        found = json.loads(results.read_text())["results"] if results.exists() else []
        return [one["unique_id"] for one in found]

    config = load(tmp_path / "mirror.toml")
    with Mirror(config.store, settings=config.settings, copies=config.copies) as mirror:
        mirror.add("shop#raw.orders")

        def see(count):
            until(lambda: mirror.step() is not None and changes_seen(mirror) >= count)

        see(1)
        assert build() == ["model.shop.report"]
        assert build() == []
        shop("INSERT INTO raw.orders VALUES (2, 20)")
        assert build() == []  # nobody has seen it yet
        see(2)
        assert build() == ["model.shop.report"]
        assert build() == []


@contextmanager
def process(*line, **options):
    """Run a program, which ends with all that it has started."""
    words = [str(one) for one in line]
    with subprocess.Popen(words, start_new_session=True, **options) as started:  # noqa: S603
        try:
            yield started
        finally:
            started.terminate()
            with suppress(subprocess.TimeoutExpired):
                started.wait(30)
            with suppress(ProcessLookupError):
                os.killpg(started.pid, signal.SIGKILL)


def check_that_one_change_is_one_run(mirror, shop, runs):
    """Change the table twice; each time there is one run, soon, and no other later."""
    for count in (1, 2):
        before = changes_seen(mirror)
        shop("INSERT INTO raw.orders VALUES (%s, 20)", [count + 10])
        until(lambda before=before: changes_seen(mirror) > before)
        until(lambda count=count: runs() >= count, 240.0)
        time.sleep(5.0)  # another would come within this
        assert runs() == count


@pytest.mark.long
def test_dagster_runs_once_for_a_change(tmp_path, shop):
    programs = adapter("dagster", "dagster")
    home = tmp_path / "home"
    home.mkdir()
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    environment = os.environ | {"DAGSTER_HOME": str(home), "PYTHONWARNINGS": "ignore"}

    def asked(what):
        code = f"import dagster; instance = dagster.DagsterInstance.get(); print({what})"
        done = subprocess.run(  # noqa: S603
            [programs / "python", "-c", code], env=environment, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def runs():
        return int(asked("len([r for r in instance.get_runs() if r.status.value == 'SUCCESS'])"))

    with running_mirror(tmp_path, QUICK) as (mirror, address):
        mirror.add("shop#raw.orders")
        until(lambda: changes_seen(mirror) >= 1)
        page = tmp_path / "definitions.py"
        text = page.read_text().replace("http://127.0.0.1:8321", address)
        page.write_text(text.replace("target=[report],", "target=[report], seconds=1,"))
        with (
            (tmp_path / "log").open("w") as log,
            process(
                programs / "dagster-daemon", "run", "-f", page,
                cwd=tmp_path, env=environment, stdout=log, stderr=log,
            ),
        ):  # fmt: skip
            until(lambda: "looked for from now on" in (tmp_path / "log").read_text(), 240.0)
            check_that_one_change_is_one_run(mirror, shop, runs)
            events = asked(
                "instance.fetch_observations(dagster.AssetKey('orders'), limit=10).records[0]"
                ".event_log_entry.asset_observation.tags['dagster/data_version']"
            )
            assert events == mirror.changes()[-1].digest


@pytest.mark.long
def test_airflow_runs_once_for_a_change(tmp_path, shop):
    programs = adapter("airflow", "airflow.sdk")
    home = tmp_path / "home"
    (home / "dags").mkdir(parents=True)
    with socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    said = {
        "CORE__DAGS_FOLDER": home / "dags", "CORE__LOAD_EXAMPLES": False, "API__PORT": port,
        "CORE__DAGS_ARE_PAUSED_AT_CREATION": False, "CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": True,
        "CORE__EXECUTION_API_SERVER_URL": f"http://127.0.0.1:{port}/execution/", "API__WORKERS": 1,
        "API__BASE_URL": f"http://127.0.0.1:{port}", "DAG_PROCESSOR__REFRESH_INTERVAL": 5,
    }  # fmt: skip
    environment = os.environ | {f"AIRFLOW__{name}": str(value) for name, value in said.items()}
    environment |= {
        "AIRFLOW_HOME": str(home), "PYTHONWARNINGS": "ignore",
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip

    def counted(query):
        with suppress(sqlite3.Error), closing(sqlite3.connect(home / "airflow.db")) as database:
            return database.execute(query).fetchone()[0]
        return 0

    with running_mirror(tmp_path, QUICK) as (mirror, address):
        mirror.add("shop#raw.orders")
        until(lambda: changes_seen(mirror) >= 1)
        text = (
            (tmp_path / "orders_dag.py")
            .read_text()
            .replace('"http://127.0.0.1:8321")', f'"{address}", seconds=1)')
        )
        (home / "dags" / "orders_dag.py").write_text(text)
        with (
            (tmp_path / "log").open("w") as log,
            process(
                programs / "airflow", "standalone",
                cwd=tmp_path, env=environment, stdout=log, stderr=log,
            ),
        ):  # fmt: skip
            watching = "SELECT count(*) FROM trigger WHERE triggerer_id IS NOT NULL"
            until(lambda: counted(watching), 240.0)
            time.sleep(10.0)  # in which the trigger has looked at what there is
            check_that_one_change_is_one_run(
                mirror, shop, lambda: counted("SELECT count(*) FROM dag_run WHERE state = 'success'")
            )
