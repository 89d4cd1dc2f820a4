"""Many rows at once: what is written and read in one statement is what one by one would give."""

from math import inf, nan

import pytest
from example_counts import percent
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import (
    Column,
    Double,
    Integer,
    MetaData,
    Table,
    Text,
    bindparam,
    create_engine,
    insert,
    select,
    update,
)

from unstale.mirror.store.sql.session import Many, Whole, among, as_numbers, from_json

TABLE = Table(
    "things",
    MetaData(),
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("moment", Double),
    Column("text", Text),
)
ADD = Many(insert(TABLE), "id", "moment", "text")
CHANGE = Many(
    update(TABLE)
    .where(TABLE.c.id == bindparam("which"), TABLE.c.text != bindparam("new_text"))
    .values(text=bindparam("new_text"), moment=bindparam("new_moment")),
    "which",
    "new_text",
    "new_moment",
)
ALL = Whole(select(TABLE), documents=("text",))
SOME = Whole(select(TABLE.c.id).where(among(TABLE.c.id, "some")))
moments = st.none() | st.floats(-1e12, 1e12).filter(lambda x: x == 0 or abs(x) >= 1e-3)


@pytest.fixture(scope="module")
def engine():
    return create_engine("sqlite://")


def connected(engine):
    connection = engine.connect()
    TABLE.drop(connection, checkfirst=True)
    TABLE.create(connection)
    return connection


@settings(max_examples=percent(60))
@given(values=st.lists(moments, max_size=70))
def test_numbers_come_back_to_the_last_digit(engine, values):
    with connected(engine) as connection:
        rows = [(number, moment, "") for number, moment in enumerate(values, 1)]
        ADD.run(connection, rows)
        assert sorted(map(tuple, ALL.run(connection))) == rows


@pytest.mark.parametrize("count", [0, 1, 2, 3, 5, 8, 2047, 2049, 5000])
def test_any_number_of_rows(engine, count):
    with connected(engine) as connection:
        ADD.run(connection, [(number, 0.5, "a") for number in range(1, count + 1)])
        odd = [(number, "b" if number % 3 else "a", 1.5) for number in range(1, count + 1, 2)]
        CHANGE.run(connection, odd)
        expected = [
            [number, 1.5, "b"] if number % 2 and number % 3 else [number, 0.5, "a"]
            for number in range(1, count + 1)
        ]
        assert sorted(ALL.run(connection)) == expected
        half = range(1, count + 1, 2)
        assert sorted(SOME.run(connection, some=as_numbers(half))) == [[number] for number in half]


def test_what_has_no_end_and_what_is_not_known(engine):
    with connected(engine) as connection:
        ADD.run(connection, [(1, inf, ""), (2, -inf, ""), (3, None, None)])
        assert sorted(ALL.run(connection)) == [[1, inf, ""], [2, -inf, ""], [3, None, None]]


@pytest.mark.parametrize(
    "text",
    ["{}", '{"etag": "\\"a\\"", "n": 12345678901234567890, "deep": [1.5]}', "no JSON", '{"x": NaN}'],
)
def test_documents_are_what_they_were(engine, text):
    import json

    with connected(engine) as connection:
        ADD.run(connection, [(1, nan, text)])
        found = ALL.run(connection)[0][2]
        try:
            expected = json.loads(text)
        except ValueError:
            assert found == text
        else:
            assert repr(from_json(found)) == repr(expected)


def test_a_row_that_is_there_already_is_an_error(engine):
    from sqlalchemy.exc import IntegrityError

    with connected(engine) as connection:
        ADD.run(connection, [(1, 0.0, "")])
        with pytest.raises(IntegrityError):
            ADD.run(connection, [(2, 0.0, ""), (1, 0.0, ""), (3, 0.0, "")])


def test_rows_with_some_numbers_are_looked_up_and_not_all_rows_read(engine):
    wanted = select(TABLE.c.id).where(among(TABLE.c.id, "some"), TABLE.c.text == bindparam("text"))
    for statement in (wanted, update(TABLE).where(among(TABLE.c.id, "some")).values(text="a")):
        made = statement.compile(dialect=engine.dialect)
        with connected(engine) as connection:
            plan = connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {made}", tuple("[1,2]" for _ in made.positiontup)
            ).all()
        steps = [row[3] for row in plan]
        assert any(step.startswith("SEARCH things") for step in steps), steps
        assert not any(step.startswith("SCAN things") for step in steps), steps
