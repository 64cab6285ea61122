from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runnerq.client.client import Client
from runnerq.console.models.context import Context
from runnerq.console.models.payloads import PREVIEW, error_of, payload_of
from runnerq.console.models.redaction import MASK, Spot, mask, telling
from runnerq.persistence.memory import MemoryStorage
from tests.console.seeing import context_of

INPUT = Spot("input", "", "checkout")
ERROR = Spot("error", "", "checkout")


@pytest.fixture
def context() -> Context:
    return context_of(Client(MemoryStorage()))


def test_a_value_whose_name_tells_of_a_secret_is_masked_however_deep_it_lies() -> None:
    given = [{"a": {"b": ({"password": "x", "keep": 1},)}, "Set-Cookie": ["y"], "card": {"no": 1}, "token": None}]
    assert mask(INPUT, given) == [
        {"a": {"b": [{"password": MASK, "keep": 1}]}, "Set-Cookie": MASK, "card": MASK, "token": None}
    ]


def test_what_has_nothing_to_mask_is_the_very_same_object() -> None:
    given = {"discard": [1, {"className": "ssn-free"}], "cardinality": 3}
    assert mask(INPUT, given) is given


@pytest.mark.parametrize(
    "name",
    ["password", "userPassword", "DB_PASSWD", "clientSecret", "accessToken", "x-api-key", "apikey", "privateKey",
     "Authorization", "set_cookie", "creditCardNumber", "card", "cardNumber", "ssn", "user.ssn", "credentials",
     "AWS_ACCESS_KEY_ID", "signingKey", "encryption_key", "sessionid", "session_id", "otp", "userPin", "jwt",
     "passcode", "auth", "pass", "iban", "cvv2"],
)  # fmt: skip
def test_a_name_that_tells(name: str) -> None:
    assert telling(name)


@pytest.mark.parametrize(
    "name",
    [
        "discard",
        "cardinality",
        "className",
        "passenger",
        "processName",
        "key",
        "author",
        "authMethod",
        "passed",
        "spin",
        "pinned",
        "session",
    ],
)
def test_a_name_that_does_not_tell(name: str) -> None:
    assert not telling(name)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("login failed: password=hunter2, user=ada", f"login failed: password={MASK}, user=ada"),
        ('{"api_key": "a b c", "n": 1}', f'{{"api_key": {MASK}, "n": 1}}'),
        ("Authorization: Bearer abc.def\nHost: x", f"Authorization: {MASK}\nHost: x"),
        ("at postgres://ada:hunter2@db/shop", f"at postgres://ada:{MASK}@db/shop"),
        ("password: correct-horse", f"password: {MASK}"),
        ("invalid token: abc123", f"invalid token: {MASK}"),
        ("nothing: here", "nothing: here"),
        ("card_declined: insufficient funds", "card_declined: insufficient funds"),
        ("unexpected token: else", "unexpected token: else"),
    ],
)
def test_in_the_text_of_an_error_what_stands_behind_a_telling_name_is_masked(text: str, shown: str) -> None:
    assert mask(ERROR, text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "{b'authorization': b'Bearer S3CR3T'}",
        "{'password': b'S3CR3T'}",
        "[('authorization', 'Bearer S3CR3T'), (b'cookie', b'S3CR3T')]",
        r"{\"password\": \"S3CR3T\", \"n\": 1}",
        r'{"password": "a\"S3CR3T"}',
        "Cookie: theme=dark; sessionid=S3CR3T",
        "Cookie: theme=dark; kept=S_E_C_R_E_T",
        "Authorization: Token S3CR3T",
        "authorization: ApiKey S3CR3T",
        'Authorization: Digest username="ada", response="S3CR3T"',
        f"token={'x' * 5_000}S3CR3T",
        f"""password="{"'" * 5_000}S3CR3T""",
        "password:\t\t\tS3CR3T",
        "password   =   S3CR3T",
        "password:\n    S3CR3T",
        "password => S3CR3T",
        "form[password]=S3CR3T",
        "token: abcS_E_C_R_E_Tabc",
        "mysqldump --password S3CR3T --user ada: exit code 2",
        "Command '['login', '--api-key', 'S3CR3T']' returned 1",
        "<auth><user>ada</user><wsse:Password Type='x'>S3CR3T</wsse:Password></auth>",
        "got Bearer S3CR3T-and-more-of-it for an answer",
    ],
)
def test_a_secret_is_masked_in_every_form_in_which_errors_have_it(text: str) -> None:
    shown = str(mask(ERROR, text))
    assert "S3CR3T" not in shown
    assert "S_E_C_R_E_T" not in shown
    assert MASK in shown


@pytest.mark.parametrize(
    "text",
    [
        "missing fields: 'password', 'token'",
        "unexpected token: EOF",
        "no session: gone",
        "--no-password --token",
        "<token/>",
    ],
)
def test_names_and_words_alone_are_no_secrets(text: str) -> None:
    assert mask(ERROR, text) is text


KEY = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nS3CR3T\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://ada:hunter2@mq:5672/", f"amqp://ada:{MASK}@mq:5672/"),
        (f"https://x:{'S3CR3T' * 100}@github.com", f"https://x:{MASK}@github.com"),
        ("postgres://u:a@S3CR3T@h/db", f"postgres://u:{MASK}@h/db"),
        ("https://a.example/?page=1&access_token=S3CR3T&n=2", f"https://a.example/?page=1&access_token={MASK}&n=2"),
        (f"found {KEY} there", f"found {MASK} there"),
        (KEY[:60], MASK),
    ],
)
@pytest.mark.parametrize("spot", [INPUT, ERROR])
def test_a_secret_in_a_url_and_a_private_key_are_masked_in_any_payload(spot: Spot, text: str, shown: str) -> None:
    assert mask(spot, {"note": text}) == {"note": shown}


def test_an_error_is_redacted_in_its_message_its_notes_its_stack_and_its_causes(context: Context) -> None:
    text = json.dumps(
        {
            "type": "ValueError",
            "module": "builtins",
            "message": "password=hunter2",
            "notes": ["secret: hunter2"],
            "stack": '  File "shop.py", line 1\n    login(password="hunter2")\n',
            "cause": {"type": "KeyError", "module": "builtins", "message": "'token=hunter2'"},
        }
    )
    view = error_of(context, ERROR, text)
    assert view is not None
    assert "hunter2" not in str(view)
    assert [cause.type for cause in view.causes] == ["KeyError"]
    assert view.line == f"ValueError: password={MASK}"


def test_whole_numbers_are_shown_exactly(context: Context) -> None:
    shown = payload_of(context, INPUT, f"[{2**60}, {2**200}]", "the input")
    assert shown is not None
    assert json.loads(shown.text) == [2**60, 2**200]


def test_a_large_payload_is_cut_and_says_how_large_it_is(context: Context) -> None:
    text = json.dumps({"password": "hunter2", "rows": ["x" * 100] * 9_000})
    shown = payload_of(context, INPUT, text, "the input")
    assert shown is not None
    assert (len(shown.text), shown.cut, shown.size, shown.redacted) == (PREVIEW, True, len(text), True)
    assert "hunter2" not in shown.text


def test_a_payload_as_deep_as_one_may_be_is_shown_without_taking_the_square_of_its_depth(context: Context) -> None:
    text = "[" * 499 + ",".join(["[]"] * 20_000) + "]" * 499
    shown = payload_of(context, INPUT, text, "the input")
    assert shown is not None
    assert (len(shown.text), shown.cut) == (PREVIEW, True)


def test_a_redactor_of_ones_own_is_asked_with_the_place() -> None:
    asked: list[Spot] = []

    def redact(spot: Spot, value: object) -> object:
        asked.append(spot)
        return "gone"

    context = context_of(Client(MemoryStorage()), "ada", redact)
    shown = payload_of(context, Spot("result", "r", "checkout"), '{"a": 1}', "the result")
    assert shown is not None
    assert (shown.text, shown.redacted) == ('"gone"', True)
    assert asked == [Spot("result", "r", "checkout")]


@pytest.mark.parametrize(
    "piece", ["a-", "ab://", "ab://x:", "ab://x?y=", "token: x\n", "'a', ", r"a\": ", "-----BEGIN "]
)
def test_a_megabyte_of_what_looks_like_names_and_values_takes_no_longer_than_its_length(piece: str) -> None:
    # With a square of it, it would take minutes.
    assert MASK not in mask(ERROR, piece * (1_000_000 // len(piece)))


SECRET = "hunter2-4711"  # noqa: S105 - what must not be shown
names = st.sampled_from(["name", "items", "discard", "n"])
telling_names = st.sampled_from(["password", "accessToken", "api-key", "card"])
leaves = st.none() | st.booleans() | st.integers() | st.text(max_size=5)
payloads = st.recursive(
    leaves,
    lambda inside: (
        st.lists(inside, max_size=3)
        | st.dictionaries(names, inside, max_size=3)
        | st.dictionaries(telling_names, st.just(SECRET) | st.just([SECRET]), max_size=2)
    ),
    max_leaves=20,
)


@settings(max_examples=50)
@given(payloads)
def test_of_any_payload_what_has_a_telling_name_is_gone_and_the_rest_is_as_it_was(given_: object) -> None:
    before = json.dumps(given_)
    shown = json.dumps(mask(INPUT, given_))
    assert SECRET not in shown
    assert json.dumps(given_) == before
    assert shown.count("[") - before.count("[") == -before.count(f'["{SECRET}"]')
    assert (shown == before) is (SECRET not in before)
