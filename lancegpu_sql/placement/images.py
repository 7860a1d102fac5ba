"""Names of container images: taken apart, and compared with what an operator allows."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

# The grammar of github.com/distribution/reference, which container engines read image names by.
_ALNUM = r"[a-z0-9]+"
_COMPONENT = rf"{_ALNUM}(?:(?:\.|_|__|-+){_ALNUM})*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_LABEL = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_DOMAIN = rf"{_LABEL}(?:\.{_LABEL})*(?::[0-9]+)?"
_DIGEST = r"sha256:[a-f0-9]{64}"
_TAG = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}"
_NAME = re.compile(rf"(?P<path>[^:@]+(?::[0-9]+/[^:@]+)?)(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?")
_WHOLE_REGISTRY = re.compile(rf"(?P<domain>{_DOMAIN})/")
_DEFAULT_REGISTRY = "docker.io"
_ANY = "any"


@dataclass(frozen=True)
class ImageName:
    """An image's name in parts; `registry` and `path` are as an engine completes them (``docker.io/library/…``)."""

    registry: str
    path: str
    tag: str | None = None
    digest: str | None = None


def parse_image(text: str) -> ImageName:
    """Take an image's name apart.

    Raises
    ------
    ValueError
        It is none that a container engine would accept.
    """
    match = _NAME.fullmatch(text)
    first, slash, rest = (match["path"] if match else "").partition("/")
    if slash and _is_registry(first):
        registry, path = first, rest
    else:
        registry, path = _DEFAULT_REGISTRY, first + slash + rest
    if match is None or not re.fullmatch(_DOMAIN, registry) or not re.fullmatch(_PATH, path):
        raise ValueError(
            f"{text!r} is no image: write registry/path:tag or registry/path@sha256:<64 hexadecimal digits>, "
            "with the path in small letters"
        )
    if registry in (_DEFAULT_REGISTRY, f"index.{_DEFAULT_REGISTRY}"):
        registry = _DEFAULT_REGISTRY
        path = path if "/" in path else f"library/{path}"
    return ImageName(registry, path, match["tag"], match["digest"])


def _is_registry(component: str) -> bool:
    # How engines tell a registry from the first part of a path.
    return "." in component or ":" in component or component == "localhost" or component != component.lower()


def check_rule(rule: str) -> str:
    """Return an entry of `allowed_images` as it is, or say what is wrong with it.

    Raises
    ------
    ValueError
        It names no images, or others than it seems to.
    """
    if re.fullmatch(_DIGEST, rule):
        return rule
    if whole := _WHOLE_REGISTRY.fullmatch(rule):
        if not _is_registry(whole["domain"]):
            raise ValueError(f"{rule!r} is no registry: write {_DEFAULT_REGISTRY + '/' + rule!r} for all that is there")
        return rule
    if "/" not in rule and _is_registry(rule.partition("@")[0]) and ":" not in rule.partition(".")[0]:
        # Read as a name it would mean docker.io/library/<that>, which nobody means.
        raise ValueError(f"{rule!r} could be a registry or an image: write {rule + '/'!r} for a whole registry")
    parse_image(_complete(rule))
    return rule


def is_allowed(image: str, rules: Iterable[str]) -> bool:
    """Tell whether an image is one of those that the rules name; one that is no image never is."""
    try:
        name = parse_image(image)
    except ValueError:
        return False
    return any(_matches(name, rule) for rule in rules)


def _matches(name: ImageName, rule: str) -> bool:
    if re.fullmatch(_DIGEST, rule):
        return name.digest == rule
    if whole := _WHOLE_REGISTRY.fullmatch(rule):
        return name.registry == whole["domain"]
    wanted = parse_image(_complete(rule))
    if name.registry != wanted.registry:
        return False
    if rule.endswith("/"):
        return name.path.startswith(wanted.path.removesuffix(_ANY))
    if wanted.digest is not None:
        return (name.path, name.digest) == (wanted.path, wanted.digest)
    if wanted.tag is not None:
        # With a digest beside it, a tag says nothing about what is run.
        return (name.path, name.tag, name.digest) == (wanted.path, wanted.tag, None)
    return name.path == wanted.path or name.path.startswith(f"{wanted.path}/")


def _complete(rule: str) -> str:
    """Return the name of an image that the rule names: one below it, where it ends with a slash."""
    return rule + _ANY if rule.endswith("/") else rule
