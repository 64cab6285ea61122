"""Faults of the seam where payloads are sealed and opened: each keeps something plain, or opens what it must not."""

from __future__ import annotations

from tests.mutants.faults import Fault

BASICS = ("tests/serialization/test_sealing.py::test_a_payload_of_before_the_codec_reads_as_ever",)
_DISK = (
    "edges/test_codecs.py::TestWhatIsOnDisk::"
    "test_with_encryption_no_column_of_any_table_shows_it_and_all_payloads_are_sealed"
)
_SEALING = "serialization/test_sealing.py"
_ALIASES = "serialization/test_codec.py::test_a_model_is_read_by_its_aliases_and_by_its_names_be_there_defaults_or_not"
_UNIONS = "serialization/test_codec.py::test_a_model_that_would_read_back_with_a_member_of_another_class_is_refused"
_KEYLESS = "edges/test_codecs.py::test_a_worker_that_cannot_read_a_run_does_not_fail_it_but_is_at_fault_itself"


def _fault(name: str, what: str, file: str, *edits: tuple[str, str], by: tuple[str, ...]) -> Fault:
    return Fault(name, what, f"runnerq/{file}", edits, tuple(f"tests/{each}" for each in by), BASICS)


def _plain(name: str, what: str, old: str, new: str) -> Fault:
    return _fault(name, what, "persistence/coded/sealing.py", (old, new), by=("persistence/test_conformance_coded.py",))


CODEC_FAULTS = (
    _fault(
        "bombs",
        "what is compressed is opened, however large it becomes",
        "serialization/compression.py",
        ("opened.decompress(payload, self._most + 1)", "opened.decompress(payload)"),
        by=(f"{_SEALING}::TestCompression::test_a_few_bytes_that_would_be_very_many_are_not_opened",),
    ),
    _fault(
        "newer-forms",
        "a form of a newer version is taken for a text",
        "serialization/sealing.py",
        ("text is None or not text.startswith(SEALED)", "text is None or not text.startswith(_FORM)"),
        by=(f"{_SEALING}::test_a_form_that_a_newer_runnerq_has_written_is_told_and_not_taken_for_a_text",),
    ),
    _fault(
        "aliases-late",
        "a model with defaults is read by its names alone",
        "serialization/models.py",
        ('"by_alias": not any(map(_collides, forms))', '"by_alias": False'),
        by=(_ALIASES,),
    ),
    _fault(
        "unions-guessed",
        "a field of a model that is a union may read back as another member",
        "serialization/models.py",
        ("doubtful=any(_is_doubtful(form) for form in forms)", "doubtful=False"),
        by=(_UNIONS,),
    ),
    _fault(
        "digests-plain",
        "digests of arguments, which can be guessed, are kept plain",
        "persistence/coded/sealing.py",
        ("asked = self._sealed(row.asked, places.asked_of(run_id, generation, row.place))", "asked = row.asked"),
        by=(_DISK,),
    ),
    _plain(
        "details-plain",
        "what an attempt says of itself is kept plain",
        "sealed.append(_with(each, text=text))",
        "sealed.append(each)",
    ),
    _plain(
        "block-plain",
        "the traceback of a blocked run is kept plain",
        "traceback=self._quoted(move.traceback, place)",
        "traceback=move.traceback",
    ),
    _plain(
        "children-plain",
        "what a child is called with is kept plain",
        "children=tuple(self.runs(turn.children))",
        "children=turn.children",
    ),
    _fault(
        "opens-anywhere",
        "a payload opens wherever it is put",
        "serialization/sealing.py",
        ('return f"{place} {inside}".encode("utf-8", "surrogatepass")', 'return f"{inside}".encode()'),
        by=(_SEALING,),
    ),
    _fault(
        "names-free",
        "the names of the codecs inside can be changed",
        "serialization/sealing.py",
        (
            'return f"{place} {inside}".encode("utf-8", "surrogatepass")',
            'return f"{place}".encode("utf-8", "surrogatepass")',
        ),
        by=(_SEALING,),
    ),
    _fault(
        "old-keys-lost",
        "only the current key is read",
        "serialization/chains.py",
        ("readers.extend(each.readers)", "pass"),
        by=(_SEALING,),
    ),
    _fault(
        "sealed-input-fed",
        "a run is begun on what is stored in place of its payloads",
        "runtime/taking.py",
        ("sealed = sealed_in_claim(claimed)", "sealed = None"),
        by=(_KEYLESS,),
    ),
    _fault(
        "key-blames-code",
        "a key that is missing counts as a fault of the code",
        "workflow/ending.py",
        ("(ImportError, MemoryError, PayloadUnreadable)", "(ImportError, MemoryError)"),
        by=(_KEYLESS,),
    ),
    _fault(
        "sealed-signal-fed",
        "a signal that cannot be read is consumed",
        "runtime/held.py",
        ("sealed = sealed_in_inbox(inbox)", "sealed = None"),
        by=("edges/test_codecs.py::test_a_signal_that_cannot_be_read_blocks_its_run_and_is_not_consumed",),
    ),
    _fault(
        "one-salt-for-good",
        "a process uses one salt for as long as it lives",
        "serialization/encryption.py",
        ("        self._left -= 1\n", ""),
        by=(_SEALING,),
    ),
)
