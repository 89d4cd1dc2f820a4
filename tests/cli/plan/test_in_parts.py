"""Files that do not fit into memory are planned in parts, and all the same."""

import subprocess
import sys

import numpy as np
import pytest

from cli.elements import about
from unstale.cli.plan import in_parts as stream

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.mark.parametrize(
    "options", [[], ["--objective", "age"], ["--objective", "harmonic"], ["--order", "random"]]
)
def test_stream_plans_the_same(options, ask, monkeypatch):
    monkeypatch.setattr("unstale.tables.files.BATCH_ROWS", 1000)
    rng = np.random.default_rng(1)
    columns = {"key": np.arange(5000), "rate": rng.lognormal(0, 2, 5000), "weight": rng.random(5000)}
    pq.write_table(pa.table(columns), "many.parquet")
    command = ["plan", "many.parquet", "--budget", "500/day", *options, "--out"]
    whole, parts = ask(*command, "whole.parquet"), ask(*command, "parts.parquet", "--stream")
    one, other = pq.read_table("whole.parquet"), pq.read_table("parts.parquet")
    assert one.schema.equals(other.schema, check_metadata=True)
    assert one["key"] == other["key"]
    np.testing.assert_allclose(one["frequency"], other["frequency"], rtol=1e-4, atol=1e-6)
    assert list(whole) == list(parts)
    for name in ("freshness", "age", "cost", "spent"):
        assert parts[name] == about(whole[name], rel=1e-6)
        for policy in ("uniform", "proportional"):
            assert parts["against"][policy][name] == about(whole["against"][policy][name], rel=1e-9)


def in_a_cluster(**options):
    """A cluster of Dask on this machine."""
    from distributed import LocalCluster

    return LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, processes=False, **options)


@pytest.mark.parametrize("certain", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_cluster_finds_the_same_price(ask, certain, monkeypatch):
    monkeypatch.setattr("unstale.cli.plan.in_parts._ROWS_OF_A_SHARD", 1200)
    rng = np.random.default_rng(1)
    columns = {"rate": rng.lognormal(0, 2, 5000), "weight": rng.random(5000)}
    if not certain:
        columns["rate"][:50] = 0.0
        columns["shape"], columns["scale"] = np.full(5000, 2.0), columns["rate"] / 2.0
        columns["shape"][:100] = columns["scale"][:100] = np.nan
    pq.write_table(pa.table(columns), "many.parquet", row_group_size=500)
    command = ["plan", "many.parquet", "--budget", "500/day", "--out"]
    alone = ask(*command, "alone.parquet", "--stream")
    with in_a_cluster() as cluster:
        together = ask(*command, "together.parquet", "--dask", cluster.scheduler_address)
    assert together["price"] == pytest.approx(alone["price"], rel=1e-9)
    one, other = pq.read_table("alone.parquet"), pq.read_table("together.parquet")
    np.testing.assert_allclose(one["frequency"], other["frequency"], rtol=1e-6, atol=1e-9)


def test_a_cluster_that_is_not_there(refuse, monkeypatch):
    monkeypatch.setattr("unstale.cli.plan.in_parts._CONNECT_SECONDS", 0.5)
    command = ["plan", "pages.parquet", "--budget", "1/h", "--out", "plan.parquet"]
    assert refuse(*command, "--dask", "tcp://127.0.0.1:1").startswith(
        "--dask tcp://127.0.0.1:1: there is no scheduler of Dask: "
    )
    assert refuse(*command, "--dask", "nonsense://").startswith("--dask nonsense://: there is no scheduler")


def test_stream_counts_bytes(run, ask):
    command = ["plan", "files.parquet", "--budget", "1MB/h", "--out", "plan.parquet", "--stream"]
    assert ask(*command)["spent"] == pytest.approx(24e6, rel=1e-6)
    out, _ = run(*command)
    assert "a budget of 1 MB/hour" in out
    assert "plan.parquet has the frequencies, in polls/day." in out


def test_stream_begins_by_itself_when_files_are_large(run, monkeypatch):
    seen, both = [], stream._both_parquet
    monkeypatch.setattr("unstale.cli.plan.in_parts.MOST_ROWS_IN_MEMORY", 5)
    monkeypatch.setattr(
        "unstale.cli.plan.in_parts._both_parquet", lambda *args: seen.append(args) or both(*args)
    )
    run("plan", "pages.parquet", "--budget", "1/h", "--out", "plan.csv")
    run("plan", "pages.parquet", "--budget", "1/h", "--out", "plan.parquet", "--max-frequency", "9/day")
    run("plan", "pages.parquet", "--budget", "1/h", "--out", "plan.parquet", "--policy", "uniform")
    assert seen == []
    run("plan", "pages.parquet", "--budget", "1/h", "--out", "plan.parquet")
    assert len(seen) == 1


def test_stream_refuses_what_it_cannot_do(refuse):
    parquet = "--stream goes from Parquet to Parquet: give a FILE and an --out that end in .parquet"
    start = ["plan", "pages.parquet", "--budget", "1/h", "--stream"]
    assert refuse(*start) == parquet
    assert refuse(*start, "--out", "plan.csv") == parquet
    assert refuse("plan", "pages.csv", "--budget", "1/h", "--stream", "--out", "plan.parquet") == parquet
    start += ["--out", "plan.parquet"]
    assert refuse(*start, "--policy", "uniform") == "--stream cannot be combined with --policy uniform"
    assert refuse(*start, "--max-frequency", "1/h") == "--stream cannot be combined with --max-frequency"


def test_stream_names_the_row(refuse, monkeypatch):
    monkeypatch.setattr("unstale.tables.files.BATCH_ROWS", 100)
    rates = np.ones(1000)
    rates[811] = -1.0
    pq.write_table(pa.table({"rate": rates}), "many.parquet")
    command = ["plan", "many.parquet", "--budget", "1/h", "--out", "plan.parquet", "--stream"]
    assert refuse(*command) == "many.parquet, row 812, column 'rate': must be finite and >= 0; it is -1.0"


@pytest.mark.long
def test_stream_needs_little_memory(tmp_path):
    schema = pa.schema([("key", pa.int64()), ("rate", pa.float64())])
    rng = np.random.default_rng(1)
    with pq.ParquetWriter(tmp_path / "many.parquet", schema) as writer:
        for start in range(0, 40_000_000, 4_000_000):
            keys = np.arange(start, start + 4_000_000)
            writer.write_table(pa.table([keys, rng.lognormal(0, 2, 4_000_000)], schema=schema), 4_000_000)
    script = (
        "import resource, sys; from unstale.cli import main; code = main(sys.argv[1:]);"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr); sys.exit(code)"
    )
    arguments = ["plan", "many.parquet", "--budget", "1000/s", "--out", "plan.parquet"]
    for _ in range(2):  # a compiler may need more, the first time
        command = [sys.executable, "-c", script, *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)  # noqa: S603
    assert int(done.stderr.split()[-1]) < 2**20  # KiB
    assert pq.ParquetFile(tmp_path / "plan.parquet").metadata.num_rows == 40_000_000
