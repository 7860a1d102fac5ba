from __future__ import annotations

import pytest

from lancegpu_sql.placement.images import ImageName, check_rule, is_allowed, parse_image

DIGEST = "sha256:" + "0" * 63 + "a"
OTHER = "sha256:" + "f" * 64


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("ubuntu", ImageName("docker.io", "library/ubuntu")),
        ("team/worker:1", ImageName("docker.io", "team/worker", "1")),
        ("index.docker.io/ubuntu", ImageName("docker.io", "library/ubuntu")),
        ("localhost/x", ImageName("localhost", "x")),
        ("good.io:5000/x/y:1.2-rc_3", ImageName("good.io:5000", "x/y", "1.2-rc_3")),
        (f"good.io/x@{DIGEST}", ImageName("good.io", "x", None, DIGEST)),
        (f"good.io/x:1@{DIGEST}", ImageName("good.io", "x", "1", DIGEST)),
        ("x:5000", ImageName("docker.io", "library/x", "5000")),
    ],
)
def test_a_name_is_taken_apart(text: str, name: ImageName) -> None:
    assert parse_image(text) == name


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "a b", "UPPER", "good.io/Upper", "good.io/x@evil", "good.io/x@evil.com/y", "good.io/../x", "good.io//x",
        "good.io/x:", "good.io/x:1:2", "good.io/x@sha256:12", "/x", "good.io/", "-bad.io/x", "good.io/x\n", "x:y/z",
        "user:secret@good.io/x", "https://good.io/x", f"good.io/x@{DIGEST}@{OTHER}",
    ],
)  # fmt: skip
def test_what_is_no_image_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no image"):
        parse_image(text)


@pytest.mark.parametrize(
    ("image", "rule"),
    [
        ("good.io/team/worker:1", "good.io/"),
        ("good.io/team/worker:1", "good.io/team"),
        ("good.io/team/worker:1", "good.io/team/"),
        ("good.io/team/worker:1", "good.io/team/worker"),
        ("good.io/team/worker:1", "good.io/team/worker:1"),
        (f"good.io/team/worker@{DIGEST}", "good.io/team/worker"),
        (f"good.io/team/worker@{DIGEST}", f"good.io/team/worker@{DIGEST}"),
        (f"good.io/team/worker:9@{DIGEST}", f"good.io/team/worker@{DIGEST}"),
        (f"elsewhere.io/x@{DIGEST}", DIGEST),
        ("team/worker", "docker.io/team/"),
        ("docker.io/library/ubuntu:24.04", "ubuntu"),
    ],
)
def test_an_image_that_a_rule_names_is_allowed(image: str, rule: str) -> None:
    assert is_allowed(image, [check_rule("else.where/x"), check_rule(rule)])


@pytest.mark.parametrize(
    ("image", "rule"),
    [
        ("good.io/x@evil", "good.io/x"),
        ("good.io.evil.com/x", "good.io/"),
        ("good.io.evil.com/x", "good.io/x"),
        ("evil.com/good.io/x", "good.io/"),
        ("good.io:5000/x", "good.io/"),
        ("good.io:5000/team/x", "good.io/team"),
        ("good.iox/x", "good.io/"),
        ("good.io/team-evil/x", "good.io/team"),
        ("good.io/teamx", "good.io/team/"),
        ("good.io/team", "good.io/team/"),
        ("good.io/team/../evil/x", "good.io/team/"),
        ("good.io/team/worker:2", "good.io/team/worker:1"),
        ("good.io/team/worker:1/x", "good.io/team/worker:1"),
        (f"good.io/team/worker:1@{OTHER}", "good.io/team/worker:1"),
        (f"good.io/team/worker@{OTHER}", f"good.io/team/worker@{DIGEST}"),
        (f"good.io/team/worker:1@{OTHER}", DIGEST),
        (f"evil.com/team/worker@{DIGEST}", f"good.io/team/worker@{DIGEST}"),
        ("good.io/team/worker", f"good.io/team/worker@{DIGEST}"),
        ("GOOD.io/x", "good.io/"),
        ("evil/good", "good"),
        ("user@good.io/x", "good.io/"),
    ],
)
def test_an_image_that_only_looks_like_a_rule_is_not_allowed(image: str, rule: str) -> None:
    assert not is_allowed(image, [check_rule(rule)])


@pytest.mark.parametrize(
    ("rule", "says"),
    [("good.io", "write 'good.io/'"), ("team/", "docker.io/team/"), ("good.io/*", "is no image"), ("", "is no image")],
)
def test_a_rule_that_means_something_else_than_it_seems_is_refused(rule: str, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        check_rule(rule)
