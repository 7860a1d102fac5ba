"""What an object store's refusals mean, from the words in which Lance's client passes them on."""

from __future__ import annotations

import pytest

from lancegpu_sql.tables.object_errors import trouble


def answer(status: str, code: str) -> str:
    """An answer as the client tells of it."""
    return (
        "LanceError(IO): Generic S3 error: Error performing list request: Error performing GET "
        "http://127.0.0.1:9/shop?list-type=2&prefix=a%2Ft.lance%2F_versions%2F in 3.1ms, after 2 retries - Server returned "
        f"non-2xx status code: {status}: <Error><Code>{code}</Code><Message>AKIA123 is wrong</Message></Error>, "
        "/home/runner/work/lance/rust/lance-io/src/object_store.rs:1576:42"
    )


NO_ANSWER = (
    "LanceError(IO): Generic S3 error: Error performing PUT http://127.0.0.1:9/shop/a%20b/t.lance in 0.1ms - HTTP error: error "
    "sending request"
)
NO_CREDENTIALS = "LanceError(IO): Generic N/A error: Failed to get AWS credentials: ProviderError(…)"
NO_REGION = "OSError: LanceError(IO): Generic S3 error: Failed to resolve region for bucket 'shop'"


@pytest.mark.parametrize(
    ("text", "told", "retryable"),
    [
        (answer("403 Forbidden", "InvalidAccessKeyId"), "does not take these credentials", False),
        (answer("404 Not Found", "NoSuchBucket"), "no such bucket", False),
        (answer("301 Moved Permanently", "PermanentRedirect"), "another region", False),
        (answer("507 Insufficient Storage", "QuotaExceeded"), "the store is full", True),
        (answer("503 Slow Down", "SlowDown"), "overloaded", True),
        (answer("500 Internal Server Error", "InternalError"), "overloaded", True),
        (answer("418 Teapot", "Odd"), "it refuses that", False),
        (NO_ANSWER, "it does not answer", True),
        (NO_CREDENTIALS, "no credentials for it were found", False),
        (NO_REGION, "Give aws_region", False),
    ],
)
def test_a_refusal_says_what_to_do_and_whether_it_may_pass(text: str, told: str, retryable: bool) -> None:
    found = trouble(text)
    assert found is not None
    assert told in found.told
    assert found.retryable is retryable


def test_the_place_of_the_request_and_the_code_are_told_and_nothing_else_of_the_answer() -> None:
    found = trouble(answer("403 Forbidden", "SignatureDoesNotMatch"))
    assert found is not None
    assert found.told.startswith("the object store at http://127.0.0.1:9/shop (403 SignatureDoesNotMatch): ")
    assert "AKIA123" not in found.told


def test_a_place_is_told_as_people_write_it() -> None:
    found = trouble(NO_ANSWER)
    assert found is not None
    assert "http://127.0.0.1:9/shop/a b/t.lance" in found.told


@pytest.mark.parametrize(
    "text", ["No space left on device (os error 28)", "Dataset at path p/t.lance was not found", ""]
)
def test_what_no_object_store_said_is_none_of_its_troubles(text: str) -> None:
    assert trouble(text) is None
