"""What is told of a DSN: where it leads, and never a piece of its password."""

from __future__ import annotations

import pytest

from runnerq.errors import ConfigurationError
from runnerq.persistence.postgres.greeting import look, place_of, without_secrets

UNESCAPED = [
    "postgresql://ada:pa/ss@db.example/shop",
    "postgresql://ada:pa#ss@db.example/shop",
    "postgresql://ada:pa?ss@db.example/shop",
    "postgresql://ada:pa[ss@db.example/shop",
    # What is left of it looks like a port.
    "postgresql://ada:12/ss@db.example/shop",
    "postgresql://ada:12#ss@db.example/shop",
    "postgresql://ada:12?ss@db.example/shop",
    "postgresql://ada@corp:12/ss@db.example/shop",
    "postgresql://ada@corp:12?ss@db.example/shop",
]
OF_ANOTHER_FORM = [
    "host=db.example user=ada password=s3cret",
    "user=ada password=s3cret@host=db.example",
    "ada:s3cret@db.example/shop",
    "postgres//ada:s3cret@db.example/shop",
    "postgresql:ada:s3cret@db.example/shop",
    "postgresql:/ada:s3cret@db.example/shop",
    "postgresql:///ada:s3cret@db.example/shop",
    '"postgresql://ada:s3cret@db.example/shop"',
    "mysql://ada:s3cret@db.example/shop",
    "postgresql+asyncpg://ada:s3cret@db.example/shop",
    "jdbc:postgresql://db.example/shop?user=ada&password=s3cret",
    # A URL and what another form has, mixed.
    "postgresql://host=db.example password=s3cret",
    "postgresql://ada password=s3cret@db.example/shop",
    "postgresql://db.example/shop password=s3cret",
    "postgresql://db.example/shop&password=s3cret",
    "postgresql:///shop?host=db.example password=s3cret",
    "postgresql:///shop?host=ada:s3cret@db.example",
]
"""Each has s3cret in it where a password stands in no URL."""


@pytest.mark.parametrize("dsn", UNESCAPED + OF_ANOTHER_FORM)
async def test_a_dsn_that_cannot_be_read_is_told_so_without_a_piece_of_its_password(dsn: str) -> None:
    with pytest.raises(ConfigurationError, match=r"DSN cannot be read: .*%2F") as caught:
        await look(dsn, 1)
    assert "s3cret" not in str(caught.value)
    assert (place_of(dsn), without_secrets(dsn)) == ("the given DSN", None)


async def test_what_the_driver_says_of_a_dsn_that_it_cannot_read_is_not_passed_on() -> None:
    with pytest.raises(ConfigurationError, match="the DSN cannot be read") as caught:
        await look("postgresql://ada@db.example/shop?s3cret", 1)
    assert caught.value.__suppress_context__


@pytest.mark.parametrize(
    ("dsn", "place", "shown"),
    [
        ("postgresql://ada:s3cret@h:5/db", "h:5/db", "postgresql://ada@h:5/db"),
        ("postgresql://h/db?user=ada@tenant&password=s3cret", "h/db", "postgresql://h/db?user=ada%40tenant"),
        ("postgresql:///db?host=/run&passfile=s3cret", "/run/db", "postgresql:///db?host=%2Frun"),
        ("postgresql://h/db?sslpassword=s3cret", "h/db", "postgresql://h/db"),
        ("POSTGRES://ada:s3cret@h/db", "h/db", "postgres://ada@h/db"),
        ("postgresql://ada:a b=c@h/a%20b", "h/a%20b", "postgresql://ada@h/a%20b"),
        ("postgresql://h/db?options=-c geqo=off", "h/db", "postgresql://h/db"),
        ("postgresql://ada:s3cret@[::1]:5/db", "::1:5/db", "postgresql://ada@[::1]:5/db"),
    ],
)
def test_a_dsn_is_shown_with_what_leads_there_and_no_secret(dsn: str, place: str, shown: str) -> None:
    assert (place_of(dsn), without_secrets(dsn)) == (place, shown)
