"""Codecs around payloads: what goes in comes out, and nothing else opens."""

from __future__ import annotations

import copy
import json
import secrets
import subprocess
import sys
import tracemalloc
import zlib
from binascii import b2a_base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerq.errors import ConfigurationError, PayloadUnreadable, StorageRefused
from runnerq.serialization.chains import Codecs, chain_of
from runnerq.serialization.compression import Compression
from runnerq.serialization.encryption import Encryption
from runnerq.serialization.sealing import SEALED, Chain, unreadable

OLD, NEW = secrets.token_bytes(32), secrets.token_bytes(16)
PLACE = "input of a run"
LETTER = json.dumps({"card": "4711 4711", "words": "never was there so long a text " * 60})


class Reversed:
    """A codec of a user's own."""

    name = "reversed"

    def encode(self, payload: bytes, place: bytes, /) -> bytes | None:
        return payload[::-1]

    def decode(self, payload: bytes, place: bytes, /) -> bytes:
        return payload[::-1]


class Failing(Reversed):
    name = "failing"

    def encode(self, payload: bytes, place: bytes, /) -> bytes | None:
        raise MemoryError("no room")


def chain(codec: Codecs) -> Chain:
    made = chain_of(codec)
    assert made is not None
    return made


def encryption(current: str = "old", **keys: bytes) -> Encryption:
    return Encryption(keys or {"old": OLD}, current)


def refused(text: str) -> PayloadUnreadable:
    found = unreadable(text, "r-1", "the input")
    assert found is not None
    return found


CHAINS: dict[str, Codecs] = {
    "compression": Compression(min_size=0),
    "encryption": encryption(),
    "one of a user's own": Reversed(),
    "all of them": [Compression(min_size=10), Reversed(), encryption()],
}
every_chain = pytest.mark.parametrize("codec", CHAINS.values(), ids=CHAINS.keys())
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@every_chain
@settings(max_examples=30, deadline=None)
@given(value=json_values, place=st.text())
def test_what_goes_in_comes_out_byte_for_byte_and_is_json_in_between(codec: Codecs, value: object, place: str) -> None:
    text = json.dumps(value, ensure_ascii=False)
    if any("\ud800" <= character <= "\udfff" for character in text + place):
        return
    sealed = chain(codec).seal(text, place)
    assert isinstance(json.loads(sealed), str) or sealed == text
    assert chain(codec).open(sealed, place) == text


@every_chain
def test_a_sealed_payload_shows_nothing_of_what_it_holds(codec: Codecs) -> None:
    sealed = chain(codec).seal(LETTER, PLACE)
    assert sealed.startswith(SEALED)
    assert "4711" not in sealed


@every_chain
def test_a_payload_of_before_the_codec_reads_as_ever(codec: Codecs) -> None:
    assert chain(codec).open(LETTER, PLACE) == LETTER
    assert unreadable(LETTER, "r-1", "the input") is None


def test_a_text_of_a_users_that_looks_like_a_sealed_one_is_told_apart() -> None:
    for text in (json.dumps("~rq1:zlib:eA=="), json.dumps(json.loads(chain(encryption()).seal('"x"', PLACE)))):
        made = chain(Compression())
        assert made.open(made.seal(text, PLACE), PLACE) == text


@given(text=st.text(st.characters(codec="utf-8")))
@settings(max_examples=100, deadline=None)
def test_whatever_stands_there_in_place_of_a_sealed_payload_is_told_and_breaks_nothing(text: str) -> None:
    made = chain([Compression(min_size=0), encryption()])
    for garbage in (f'{SEALED}1:{text}"', f'{SEALED}1:zlib:{text}"', f'{SEALED}1:aes-gcm=old,zlib:{text}"'):
        assert refused(made.open(garbage, PLACE))


@pytest.mark.parametrize("text", [f'{SEALED}2:aes-gcm=old:eA=="', f'{SEALED}10:x"', f'{SEALED}"'])
@pytest.mark.parametrize("codec", [encryption(), None], ids=["encryption", "no codec"])
def test_a_form_that_a_newer_runnerq_has_written_is_told_and_not_taken_for_a_text(
    codec: Codecs | None, text: str
) -> None:
    made = chain_of(codec)
    error = refused(text if made is None else made.open(text, PLACE))
    assert (error.fault, error.key) == ("newer", None)
    assert "only a newer runnerq knows: upgrade this process" in str(error)
    with pytest.raises(StorageRefused, match="another process has sealed"):
        chain(encryption()).seal(text, PLACE)


def test_the_error_is_the_same_when_it_was_copied() -> None:
    error = refused(f'{SEALED}1:aes-gcm=old!:"')
    copied = copy.copy(error)
    assert (str(copied), copied.fault) == (str(error), "changed")


class TestCompression:
    @pytest.mark.parametrize(("size", "sealed"), [(998, False), (999, True)])
    def test_only_payloads_of_the_least_size_are_compressed(self, size: int, sealed: bool) -> None:
        # Two quotes are payload, too.
        text = json.dumps("x" * (size - 1))
        assert chain(Compression(min_size=1000)).seal(text, PLACE).startswith(SEALED) is sealed

    def test_what_would_not_become_smaller_is_left_as_it_is(self) -> None:
        text = json.dumps(secrets.token_urlsafe(3000))
        assert chain(Compression(min_size=0)).seal(text, PLACE) == text

    def test_a_long_text_takes_less_room(self) -> None:
        assert len(chain(Compression()).seal(LETTER, PLACE)) < len(LETTER) / 4

    def test_another_level_reads_what_one_wrote(self) -> None:
        assert chain(Compression(level=1)).open(chain(Compression(level=9)).seal(LETTER, PLACE), PLACE) == LETTER

    def test_one_that_reads_only_compresses_nothing_and_reads_what_is_compressed(self) -> None:
        reader = chain(Compression(min_size=None))
        assert reader.seal(LETTER, PLACE) == LETTER
        assert reader.open(chain(Compression()).seal(LETTER, PLACE), PLACE) == LETTER

    def test_a_few_bytes_that_would_be_very_many_are_not_opened(self) -> None:
        bomb = b2a_base64(zlib.compress(b"0" * (200 << 20), 9), newline=False).decode()
        tracemalloc.start()
        left = chain([Compression(), encryption()]).open(f'{SEALED}1:zlib:{bomb}"', PLACE)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 40 << 20
        error = refused(left)
        assert (error.codec, error.fault) == ("zlib", "oversized")
        assert "is larger than any payload may be here: raise connect(payload_limit=...)" in str(error)

    def test_how_much_is_opened_goes_with_the_payload_limit_and_what_is_more_is_not_compressed(self) -> None:
        large = chain_of(Compression(), payload_limit=2 << 20)
        assert large is not None
        at_the_limit, over_it = "x" * (32 << 20), "x" * ((32 << 20) + 1)
        sealed = large.seal(at_the_limit, PLACE)
        assert len(sealed) < len(at_the_limit) / 100
        assert large.open(sealed, PLACE) == at_the_limit
        assert large.seal(over_it, PLACE) == over_it
        assert refused(chain(Compression()).open(sealed, PLACE)).fault == "oversized"

    def test_what_was_cut_off_is_not_opened(self) -> None:
        small = b2a_base64(zlib.compress(LETTER.encode())[:-9], newline=False).decode()
        assert refused(chain(Compression()).open(f'{SEALED}1:zlib:{small}"', PLACE)).fault == "changed"

    @pytest.mark.parametrize("options", [{"min_size": -1}, {"level": 0}, {"level": 10}])
    def test_options_that_mean_nothing_are_refused(self, options: dict[str, int]) -> None:
        with pytest.raises(ConfigurationError):
            Compression(**options)


class TestEncryption:
    def test_the_same_payload_is_another_each_time(self) -> None:
        made = chain(encryption())
        assert made.seal(LETTER, PLACE) != made.seal(LETTER, PLACE)

    def test_new_payloads_have_the_current_key_and_old_ones_still_read(self) -> None:
        before = chain(encryption()).seal(LETTER, PLACE)
        both = chain(encryption("new", old=OLD, new=NEW))
        after = both.seal(LETTER, PLACE)
        assert before.startswith(f"{SEALED}1:aes-gcm=old:")
        assert after.startswith(f"{SEALED}1:aes-gcm=new:")
        assert both.open(before, PLACE) == both.open(after, PLACE) == LETTER

    def test_one_that_reads_only_encrypts_nothing_and_reads_with_all_its_keys(self) -> None:
        reader = chain(Encryption({"old": OLD, "new": NEW}, None))
        assert reader.seal(LETTER, PLACE) == LETTER
        for key, value in (("old", OLD), ("new", NEW)):
            assert reader.open(chain(encryption(key, **{key: value})).seal(LETTER, PLACE), PLACE) == LETTER

    def test_a_payload_whose_key_is_missing_is_left_and_names_the_key(self) -> None:
        left = chain(encryption("new", new=NEW)).open(chain(encryption()).seal(LETTER, PLACE), PLACE)
        error = refused(left)
        assert (error.run_id, error.entry, error.codec, error.key, error.fault) == (
            "r-1", "the input", "aes-gcm", "old", "missing",
        )  # fmt: skip
        assert str(error).startswith("the input of run r-1 is sealed by 'aes-gcm' with the key 'old', and this")
        assert "4711" not in left

    def test_another_key_of_the_same_name_does_not_open_and_that_is_what_it_says_first(self) -> None:
        left = chain(encryption(old=NEW)).open(chain(encryption()).seal(LETTER, PLACE), PLACE)
        assert refused(left).fault == "changed"
        assert "with the key 'old', and does not open here: the key of that name is another one" in str(refused(left))

    @pytest.mark.parametrize("at", [0, 20, 30, -1])
    def test_a_payload_that_was_changed_does_not_open(self, at: int) -> None:
        sealed = chain(encryption()).seal(LETTER, PLACE)
        head, body = sealed[: -len(sealed.rpartition(":")[2])], sealed.rpartition(":")[2][:-1]
        body = body.rstrip("=")
        other = "A" if body[at] != "A" else "B"
        at %= len(body)
        left = chain(encryption()).open(f'{head}{body[:at]}{other}{body[at + 1 :]}{"=" * (-len(body) % 4)}"', PLACE)
        error = refused(left)
        assert (error.fault, error.key) == ("changed", "old")
        assert "it was changed since it was written, or is not where it was written" in str(error)

    def test_a_payload_that_was_cut_off_does_not_open(self) -> None:
        sealed = chain(encryption()).seal(LETTER, PLACE)
        for cut in (f'{sealed[:40]}"', f'{SEALED}1:aes-gcm=old:"', f'{SEALED}1:aes-gcm=old"', f'{SEALED}1:"', SEALED):
            assert refused(chain(encryption()).open(cut, PLACE))

    def test_a_payload_that_was_moved_elsewhere_does_not_open(self) -> None:
        sealed = chain(encryption()).seal(LETTER, PLACE)
        assert refused(chain(encryption()).open(sealed, "input of another run")).fault == "changed"

    def test_names_that_were_changed_do_not_open(self) -> None:
        codec = [Reversed(), encryption()]
        sealed = chain(codec).seal(LETTER, PLACE)
        assert sealed.startswith(f"{SEALED}1:aes-gcm=old,reversed:")
        assert refused(chain(codec).open(sealed.replace(",reversed", ""), PLACE)).fault == "changed"

    def test_a_process_without_a_codec_cannot_read_and_says_by_what_it_was_sealed(self) -> None:
        error = refused(chain([Compression(), encryption()]).seal(LETTER, PLACE))
        assert (error.codec, error.key, error.fault) == ("aes-gcm", "old", "missing")

    def test_of_several_codecs_the_one_that_is_missing_is_named(self) -> None:
        left = chain(encryption()).open(chain([Compression(), encryption()]).seal(LETTER, PLACE), PLACE)
        assert (refused(left).codec, refused(left).key) == ("zlib", None)

    def test_what_could_not_be_opened_is_never_stored_as_a_payload(self) -> None:
        left = chain(encryption("new", new=NEW)).open(chain(encryption()).seal(LETTER, PLACE), PLACE)
        with pytest.raises(StorageRefused, match="another process has sealed"):
            chain(encryption()).seal(left, PLACE)

    def test_other_salts_than_its_own_are_read_however_many_there_are(self) -> None:
        reader = chain(encryption())
        for _ in range(300):
            assert reader.open(chain(encryption()).seal("1", PLACE), PLACE) == "1"

    def test_a_process_has_a_salt_of_its_own_and_another_one_after_many_payloads(self) -> None:
        codec = encryption().writer
        assert codec is not None
        salts = {codec.encode(b"", b"")[:16] for _ in range(5)}
        assert len(salts) == 1
        codec._left = 2
        salts |= {codec.encode(b"", b"")[:16] for _ in range(5)}
        assert len(salts) == 2

    def test_it_shows_no_key(self) -> None:
        shown = repr(encryption("new", old=OLD, new=NEW))
        assert shown == "Encryption(keys=['old', 'new'], current='new')"

    @pytest.mark.parametrize(
        ("keys", "current", "why"),
        [
            ({"a": OLD}, "b", "current='b' is none of the keys"),
            ({}, "a", "keys= has none"),
            ({}, None, "keys= has none"),
            ({"a": b"short"}, "a", "5 bytes: a key is 16, 24 or 32 random bytes"),
            ({"a": "x" * 32}, "a", "a str: a key is"),
            ({"no, key": OLD}, "no, key", "can be no key's name"),
        ],
    )
    def test_keys_that_cannot_be_are_refused(self, keys: dict[str, bytes], current: str, why: str) -> None:
        with pytest.raises(ConfigurationError, match=why):
            Encryption(keys, current)

    def test_without_the_package_it_says_what_to_install(self) -> None:
        code = (
            "import sys; sys.modules['cryptography'] = None\n"
            "import runnerq as rq\n"
            "try: rq.Encryption({'a': bytes(32)}, 'a')\n"
            "except rq.ConfigurationError as error: print(error)"
        )
        told = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        assert told.stdout.strip() == "Encryption needs the package cryptography: install runnerq[encryption]"


class TestChains:
    def test_codecs_wrap_in_the_order_that_is_given(self) -> None:
        sealed = chain([Compression(min_size=0), Reversed(), encryption()]).seal(LETTER, PLACE)
        assert sealed.startswith(f"{SEALED}1:aes-gcm=old,reversed,zlib:")

    def test_no_codecs_are_no_chain(self) -> None:
        assert chain_of(None) is chain_of([]) is None

    def test_a_codec_that_fails_refuses_the_payload_and_is_named(self) -> None:
        with pytest.raises(StorageRefused, match=r"input of a run cannot be sealed: the codec 'failing' failed.*room"):
            chain(Failing()).seal(LETTER, PLACE)

    @pytest.mark.parametrize(
        ("codec", "why"),
        [
            ([encryption(), Compression()], "put it first"),
            ([Reversed(), Reversed()], "two with the name 'reversed'"),
            ("zlib", "expected rq.Compression"),
            (Compression, "expected rq.Compression"),
            ([object()], "expected rq.Compression"),
        ],
    )
    def test_what_can_be_no_chain_is_refused(self, codec: Codecs, why: str) -> None:
        with pytest.raises(ConfigurationError, match=why):
            chain_of(codec)

    @pytest.mark.parametrize("name", ["", "Upper", "with,comma", "with:colon", "x" * 33, 'quote"'])
    def test_a_name_that_could_not_be_read_again_is_refused(self, name: str) -> None:
        codec = Reversed()
        codec.name = name
        with pytest.raises(ConfigurationError, match="a name is up to 32"):
            chain_of(codec)
