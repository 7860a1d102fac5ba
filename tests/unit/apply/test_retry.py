"""Which failures are worth another try, and when."""

from __future__ import annotations

from lancegpu_sql.apply.retry import MOST_BACKOFF_SECONDS, MOST_RETRY_AFTER_SECONDS, NO_RETRY, RetryPolicy
from lancegpu_sql.workers import CallFailure


def failure(error_type: str = "requests.exceptions.HTTPError", retry_after_seconds: float | None = None) -> CallFailure:
    message = f"{error_type}: 429 Too Many Requests"
    return CallFailure("raised", message, error_type, retry_after_seconds=retry_after_seconds)


def test_without_a_policy_nothing_is_tried_again() -> None:
    assert NO_RETRY.delay_seconds(failure(), 1) is None


def test_errors_go_by_their_names_with_or_without_the_module() -> None:
    assert RetryPolicy(2, errors=("HTTPError",)).matches(failure())
    assert RetryPolicy(2, errors=("requests.exceptions.HTTPError",)).matches(failure())
    assert not RetryPolicy(2, errors=("TimeoutError",)).matches(failure())


def test_messages_go_by_a_pattern() -> None:
    assert RetryPolicy(2, messages=r"\b(429|503)\b").matches(failure())
    assert not RetryPolicy(2, messages="503").matches(failure())


def test_what_the_exception_says_comes_before_the_backoff_and_is_bounded() -> None:
    policy = RetryPolicy(9, backoff_seconds=1.0)
    assert policy.delay_seconds(failure(retry_after_seconds=30.0), 1) == 30.0
    assert policy.delay_seconds(failure(retry_after_seconds=1e9), 1) == MOST_RETRY_AFTER_SECONDS


def test_the_backoff_is_bounded() -> None:
    assert RetryPolicy(1000, backoff_seconds=1.0).delay_seconds(failure(), 999) == MOST_BACKOFF_SECONDS
