"""JSON and YAML from strangers: what is read, and everything that is refused."""

import json
import time
import tracemalloc
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gateway.strict import DEPTH_MAX, Malformed, json_document
from gateway.yaml_documents import BYTES_MAX, yaml_document


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", "MALFORMED"),
        (b"{", "MALFORMED"),
        (b"{'a': 1}", "MALFORMED"),
        (b'{"a": 1,}', "MALFORMED"),
        (b'{"a": 1} {"b": 2}', "MALFORMED"),
        (b"\xef\xbb\xbf{}", "MALFORMED"),
        (b'{"a": "\xff"}', "ENCODING"),
        ('{"a": 1}'.encode("utf-16"), "ENCODING"),
        (b'{"a": NaN}', "NUMBER"),
        (b'{"a": Infinity}', "NUMBER"),
        (b'{"a": -Infinity}', "NUMBER"),
        (b'{"a": 1e400}', "NUMBER"),
        (b'{"a": ' + b"9" * 5000 + b"}", "MALFORMED"),
        (b'{"a": 1, "a": 2}', "DUPLICATE_KEY"),
        (b'{"x": {"a": 1, "a": 1}}', "DUPLICATE_KEY"),
        (b'{"a": "\\u0000"}', "CHARACTER"),
        (b'{"a\\u0000": 1}', "CHARACTER"),
        (b'{"a": "\\ud800"}', "CHARACTER"),
        (b"[" * (DEPTH_MAX + 1) + b"]" * (DEPTH_MAX + 1), "DEPTH"),
        (b"[" * 100_000, "DEPTH"),
        (b'{"a":' * 100_000, "DEPTH"),
    ],
)
def test_json_that_two_readers_could_understand_differently_is_refused(
    text: bytes, code: str
) -> None:
    with pytest.raises(Malformed) as refusal:
        json_document(text)
    assert refusal.value.code == code


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(st.characters(codec="utf-8")),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner)
        ),
        max_leaves=10,
    )
)
def test_what_json_can_say_is_read_as_it_is(value: Any) -> None:
    text = json.dumps(value)
    if "\\u0000" not in text:
        assert json_document(text.encode()) == value


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join([f'*{chr(97 + i)}'] * 9)}]\n" for i in range(7)
)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "MALFORMED"),
        ("a: [", "MALFORMED"),
        ("a:\n\t- b", "MALFORMED"),
        ("a: b\x01", "MALFORMED"),
        (BOMB, "YAML"),
        ("a: &x 1", "YAML"),
        ("a: *x", "YAML"),
        ("base: {a: 1}\nb: {<<: *base}", "YAML"),
        ("a: !!python/object/apply:os.system [ls]", "YAML"),
        ("a: !!str 1", "YAML"),
        ("!local {a: 1}", "YAML"),
        ("%YAML 1.1\n---\na: 1", "YAML"),
        ("a: 1\n---\nb: 2", "YAML"),
        ("? [a]\n: 1", "YAML"),
        ("a: 1\na: 2", "DUPLICATE_KEY"),
        ("x: {a: 1, a: 1}", "DUPLICATE_KEY"),
        ('"a": 1\na: 2', "DUPLICATE_KEY"),
        ('a: "\\0"', "CHARACTER"),
        ("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1), "DEPTH"),
        ("[" * 100_000, "DEPTH"),
        ("a: " + "x" * BYTES_MAX, "TOO_LARGE"),
    ],
)
def test_yaml_beyond_plain_data_is_refused(text: str, code: str) -> None:
    with pytest.raises(Malformed) as refusal:
        yaml_document(text.encode())
    assert refusal.value.code == code


@pytest.mark.parametrize(
    "scalar",
    [
        "yes", "no", "on", "True", "012", "0x10", "1_000", "1e3", "+4", "4.0", "１２",
        "12:30:45", "2024-01-01", ".inf", ".nan",
    ],
)  # fmt: skip
def test_yaml_guesses_no_type(scalar: str) -> None:
    assert yaml_document(f"a: {scalar}".encode()) == {"a": scalar}


def test_yaml_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(Malformed) as refusal:
        yaml_document(b"a: \xff")
    assert refusal.value.code == "ENCODING"


@given(
    st.dictionaries(
        st.text("abc", min_size=1),
        st.integers(-(2**63), 2**63) | st.booleans() | st.lists(st.text("xyz ", min_size=1)),
    )
)
def test_plain_yaml_is_read_as_yaml_wrote_it(value: dict[str, Any]) -> None:
    assert yaml_document(yaml.safe_dump(value).encode()) == value


@pytest.mark.parametrize("data", [b"[" * 250_000, BOMB.encode(), b"{a: " * 60_000])
def test_a_hostile_document_costs_little(data: bytes) -> None:
    tracemalloc.start()
    started = time.perf_counter()
    with pytest.raises(Malformed):
        yaml_document(data)
    assert time.perf_counter() - started < 0.5
    assert tracemalloc.get_traced_memory()[1] < 10 * 2**20
    tracemalloc.stop()
