"""As many elements as fit into memory, and more."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks import peak
from benchmarks.planning import budget_error, elements, relative_gap
from benchmarks.timing import required, side_by_side
from unstale import plan

IN_MEMORY = 100_000_000
ROWS = 200_000_000
BATCH = 1 << 20
BYTES_PER_ROW = 40
"""Of both files, with room to spare."""


def run() -> None:
    in_memory()
    out_of_memory()


def in_memory() -> None:
    tenth = IN_MEMORY // 10
    print(f"\n{IN_MEMORY:,} elements in memory; yardstick: {tenth:,} of them")
    have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if have < 8 * peak.GIB:
        print(f"  skipped: needs 8 GiB of memory, and there are {have / peak.GIB:.1f}")
        return
    done = peak.run(sys.executable, "-c", "from benchmarks import huge; huge.measure_in_memory()")
    found = json.loads(done.output)
    print(
        f"  {found['all']:.2f} s, yardstick {found['tenth']:.3f} s;"
        f" {required(found['all'] / found['tenth'], 12, 'x')};"
        f" gap {found['gap']:.0e}, budget error {found['error']:.0e}"
    )
    print(f"  peak memory, the input included: {required(done.peak / peak.GIB, 8, 'GiB')}")


def measure_in_memory() -> None:
    """Run in a process of its own, which prints what it found."""
    rates, weights = elements(IN_MEMORY)
    tenth = IN_MEMORY // 10
    some, theirs = rates[:tenth], weights[:tenth]
    found = plan(rates, float(IN_MEMORY), weights=weights)
    error, gap = budget_error(found.frequencies.sum(), IN_MEMORY), relative_gap(found)
    assert error < 1e-12, error
    assert gap < 1e-9, gap
    del found
    quick, seconds = side_by_side(
        lambda: plan(some, float(tenth), weights=theirs),
        lambda: plan(rates, float(IN_MEMORY), weights=weights),
        repeat=7,
    )
    print(json.dumps({"all": seconds, "tenth": quick, "error": error, "gap": gap}))


def out_of_memory() -> None:
    rows = int(float(os.environ.get("UNSTALE_BENCH_ROWS", ROWS)))
    print(
        f"\nunstale plan --stream, {rows:,} rows from Parquet to Parquet (UNSTALE_BENCH_ROWS sets how many)"
    )
    folder = Path(tempfile.gettempdir())
    free, needed = shutil.disk_usage(folder).free, rows * BYTES_PER_ROW
    if free < needed:
        print(
            f"  skipped: needs {needed / 1e9:.1f} GB in {folder}, and {free / 1e9:.1f} are free; set TMPDIR"
        )
        return
    with tempfile.TemporaryDirectory(dir=folder) as inside:
        source, target = str(Path(inside, "in.parquet")), str(Path(inside, "out.parquet"))
        _write(source, rows)
        command = ("plan", source, "--budget", f"{rows}/day", "--out", target, "--stream", "--json")
        done = peak.run(sys.executable, "-m", "unstale", *command)
        told = json.loads(done.output)
        count, spent = _added_up(target)
        size = Path(source).stat().st_size
        assert count == told["elements"] == rows, count
        error, gap = budget_error(spent, rows), told["gap"] / told["cost"]
        assert error < 1e-9, error
        assert gap < 1e-9, gap
    print(
        f"  {done.seconds:.0f} s, {done.seconds / rows * 1e6:.2f} s per million rows,"
        f" input {size / 1e9:.1f} GB; gap {gap:.0e}, budget error {error:.0e}"
    )
    print(f"  peak memory: {required(done.peak / peak.GIB, 1, 'GiB')}")


def _write(path: str, rows: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    rng = np.random.default_rng(1)
    schema = pa.schema([("key", pa.int64()), ("rate", pa.float64()), ("weight", pa.float64())])
    with parquet.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, BATCH):
            keys = np.arange(start, min(start + BATCH, rows))
            columns = [keys, rng.lognormal(size=keys.size), rng.lognormal(size=keys.size)]
            writer.write_table(pa.table(columns, schema=schema))


def _added_up(path: str) -> tuple[int, float]:
    """How many frequencies there are in a file, and their sum."""
    from pyarrow import parquet

    count, total = 0, 0.0
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(BATCH, columns=["frequency"]):
            count += batch.num_rows
            total += float(batch.column(0).to_numpy().sum())
    return count, total
