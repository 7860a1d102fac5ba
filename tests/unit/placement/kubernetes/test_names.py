from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st
from pods import request_for

from lancegpu_sql.placement.gpu_class import GpuClass
from lancegpu_sql.placement.kubernetes.names import (
    claim_template_name,
    dns_label,
    label_value,
    selector,
    worker_labels,
    worker_name,
)

LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")

anything = st.text() | st.text(alphabet="aZ0-_./ é\n", max_size=80)


@given(anything)
def test_any_text_has_a_label_value(text: str) -> None:
    assert LABEL_VALUE.fullmatch(label_value(text))


@given(anything, anything)
def test_two_texts_have_two_label_values(one: str, other: str) -> None:
    assert (label_value(one) == label_value(other)) == (one == other)


@given(anything.filter(lambda text: LABEL_VALUE.fullmatch(text)))
def test_a_text_that_is_a_label_value_stays_as_it_is(text: str) -> None:
    assert label_value(text) == text


@given(anything, anything)
def test_any_request_has_a_name_for_its_pod(function: str, request_id: str) -> None:
    assert DNS_LABEL.fullmatch(worker_name(request_for(function=function, request_id=request_id)))


@given(anything, anything)
def test_every_request_and_every_attempt_has_its_own_name(one: str, other: str) -> None:
    names = {
        worker_name(request_for(request_id=request_id), attempt) for request_id in {one, other} for attempt in (0, 1)
    }
    assert len(names) == 2 * len({one, other})


def test_a_request_always_has_the_same_name() -> None:
    assert worker_name(request_for()) == worker_name(request_for()) == "lancegpu-embed-c32a2a5c13"


@given(anything)
def test_any_class_has_a_name_for_its_claim_template(name: str) -> None:
    assert DNS_LABEL.fullmatch(claim_template_name(name, {"count": 1}))
    assert len({claim_template_name(name, {"count": 1}, placement) for placement in ("", "a", "b")}) == 3


def test_names_show_what_they_are_of() -> None:
    assert dns_label("lancegpu", "Größe_x").startswith("lancegpu-gr-e-x-")
    assert label_value("job 1 (refresh)").startswith("job-1-refresh-")


@given(anything, anything)
def test_labels_are_valid_whatever_people_call_things(word: str, database: str) -> None:
    request = request_for(GpuClass(name="L4.x_y"), job_id=word, owner=word, function=word)
    assert all(LABEL_VALUE.fullmatch(value) for value in worker_labels(request, database).values())


def test_a_selector_finds_what_carries_all_labels() -> None:
    assert selector({"a": "b", "c": "d"}) == "a=b,c=d"
