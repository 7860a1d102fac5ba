"""What holds for every test: cheap suites first, a time budget for each, and no skip without a known reason."""

from __future__ import annotations

import os
import random
import signal
from collections import defaultdict
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from object_store import S3Server, installed
from object_store import running as s3_running
from postgresql_server import PostgresqlServer, programs, running
from skips import refusal
from suites import rank, report_lines, suite_of

IN_CI = os.environ.get("CI", "").lower() == "true"

# A slow, shared machine must not fail an example for its time; the long run is for make test-full.
settings.register_profile("usual", deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("full", settings.get_profile("usual"), max_examples=2000)
settings.load_profile("full" if os.environ.get("TEST_LENGTH") == "full" else "usual")

# A shell starts commands in the background so that they ignore Ctrl-C, and so would every program that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_used_seconds: dict[str, float] = defaultdict(float)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Which Kubernetes the tests of tests/kubernetes use."""
    parser.addoption(
        "--cluster",
        choices=("own", "external"),
        default="own",
        help="own: started by the tests, compiled once; external: the one that KUBECONFIG names",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Cheap suites first: what can fail in a second does so before what takes minutes."""
    items.sort(key=lambda item: rank(suite_of(item.path)))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count the seconds of the suite, and fail a skip that is not allowed."""
    report = yield
    _used_seconds[suite_of(item.path)] += report.duration
    if report.skipped and not hasattr(report, "wasxfail"):
        _fail_if_refused(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for a whole module that skips itself."""
    report = yield
    if report.skipped:
        _fail_if_refused(report)
    return report


def _fail_if_refused(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    message = refusal(reason.removeprefix("Skipped: "), in_ci=IN_CI)
    if message is not None:
        report.outcome = "failed"
        report.longrepr = message


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many seconds each suite used of its budget."""
    if _used_seconds:
        terminalreporter.section("seconds used by suite")
        for line in report_lines(_used_seconds):
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def postgresql_programs(request: pytest.FixtureRequest) -> Path:
    """The programs of a PostgreSQL server, installed if need be."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(words: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{words}", flush=True)

    return programs(say)


@pytest.fixture(scope="session")
def postgresql_server(postgresql_programs: Path) -> Iterator[PostgresqlServer]:
    """A PostgreSQL server of this run's own, started when the first test wants it."""
    with running(postgresql_programs) as server:
        yield server


@pytest.fixture
def catalog_settings(catalog: str, request: pytest.FixtureRequest) -> dict[str, str]:
    """Where the database of a test has its catalog that is run with each kind of it: ``sqlite`` or ``postgresql``."""
    if catalog == "sqlite":
        return {}
    server: PostgresqlServer = request.getfixturevalue("postgresql_server")
    return {"catalog": server.url()}


@pytest.fixture(scope="session")
def s3_server(request: pytest.FixtureRequest) -> Iterator[S3Server]:
    """An S3 server of this run's own, started when the first test wants it."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(words: str) -> None:
        with capture.global_and_fixture_disabled():
            print(f"\n{words}", flush=True)

    with s3_running(installed(say)) as server:
        yield server


@pytest.fixture
def dice() -> random.Random:
    """What decides what happens when; a failure says how it is seen again."""
    seed = int(os.environ.get("KILLS_SEED") or random.SystemRandom().randrange(2**32))
    print(f"to see it again: KILLS_SEED={seed}")
    return random.Random(seed)


@pytest.fixture
def fresh_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the current one while the test runs."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
