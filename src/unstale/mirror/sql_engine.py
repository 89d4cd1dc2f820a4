"""How engines of SQLAlchemy are closed, while others may still use their connections."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import Engine


def close_engine(engine: Engine) -> None:
    """Close all connections of an engine; one that a thread still uses is closed when it is given back.

    SQLAlchemy would keep that one in the pool, which nobody asks any more, and leave it to the collector of
    garbage: the server keeps a session for nobody until then.
    """
    from sqlalchemy import event

    event.listen(engine.pool, "checkin", lambda _, entry: entry.close())
    engine.dispose()  # the pool that it makes in place of the old one heeds the listener, too
