"""The cluster's programs: compiled once per machine from the modules that a ``go.mod`` names, then kept in a cache folder.

``python build.py`` builds them by hand and prints where they are. The cache lies outside the checkout, in a folder named
by the digest of ``go.sum``, so that another checkout finds them and another release is built beside them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
OLDEST_GO = (1, 26)
SECONDS_BETWEEN_LINES = 15.0

Say = Callable[[str], None]


class BuildFailed(Exception):
    """The programs could not be compiled; the message ends with what Go said."""


@dataclass(frozen=True)
class Recipe:
    """What is compiled together: its ``go.mod`` and ``go.sum`` are in `folder`.

    `packages` are the programs' Go packages by the names that the programs get; `files` come along from the source of
    `files_of`, a module. `words` say what it is and how long it takes.
    """

    folder: Path
    words: str
    packages: Mapping[str, str]
    files_of: str
    files: tuple[str, ...]


CLUSTER = Recipe(
    HERE,
    "Kubernetes, etcd, containerd and kwok, once per machine: 7 minutes on 2 cores where Go's cache is cold",
    {
        "etcd": "go.etcd.io/etcd/server/v3",
        "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
        "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
        "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
        "kubectl": "k8s.io/kubernetes/cmd/kubectl",
        "kubelet": "k8s.io/kubernetes/cmd/kubelet",
        "containerd": "github.com/containerd/containerd/v2/cmd/containerd",
        "containerd-shim-runc-v2": "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
        "ctr": "github.com/containerd/containerd/v2/cmd/ctr",
        "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    },
    "sigs.k8s.io/kwok",
    tuple(
        f"kustomize/stage/{stage}.yaml"
        for stage in (
            "node/fast/node-initialize",
            "node/heartbeat-with-lease/node-heartbeat-with-lease",
            "pod/fast/pod-ready",
            "pod/fast/pod-complete",
            "pod/fast/pod-delete",
        )
    ),
)
_CRDS = (
    "admissionchecks clusterqueues cohorts localqueues multikueueclusters multikueueconfigs provisioningrequestconfigs "
    "resourceflavors topologies workloadpriorityclasses workloads"
)
KUEUE = Recipe(
    HERE / "kueue",
    "Kueue, once per machine: 4 minutes on 2 cores where Go's cache is cold",
    {"kueue": "sigs.k8s.io/kueue/cmd/kueue"},
    "sigs.k8s.io/kueue",
    (
        *(f"config/components/crd/bases/kueue.x-k8s.io_{name}.yaml" for name in _CRDS.split()),
        "config/components/webhook/manifests.yaml",
    ),
)


@dataclass(frozen=True)
class Programs:
    """Where the compiled programs of a recipe are, and what came along."""

    folder: Path
    recipe: Recipe = CLUSTER

    def __getitem__(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def files(self) -> list[Path]:
        """What came along; of kwok, what it does with its nodes and pods."""
        return [self.folder / Path(name).name for name in self.recipe.files]

    def complete(self) -> bool:
        """Whether nothing is missing."""
        return all(path.exists() for path in (*self.files, *(self.folder / name for name in self.recipe.packages)))


def cached(recipe: Recipe = CLUSTER) -> Programs:
    """The programs of this ``go.sum``, built or not."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    digest = hashlib.sha256((recipe.folder / "go.sum").read_bytes()).hexdigest()[:16]
    return Programs(cache / "lancegpu" / "test-cluster" / digest, recipe)


def why_not(recipe: Recipe = CLUSTER) -> str | None:
    """Why there can be no such programs here; None where they are built, or can be."""
    if shutil.which("openssl") is None:
        return "no openssl on the PATH (it makes the certificates of the test cluster)"
    if cached(recipe).complete():
        return None
    if shutil.which("go") is None:
        return f"no Go on the PATH (the programs of the test cluster are compiled by Go {_dotted(OLDEST_GO)} or newer)"
    printed = subprocess.run(["go", "version"], capture_output=True, text=True, cwd="/", check=False).stdout
    found = re.search(r"go(\d+)\.(\d+)", printed)
    if found is None or (int(found[1]), int(found[2])) < OLDEST_GO:
        return (
            f"Go {_dotted(OLDEST_GO)} or newer compiles the programs of the test cluster; here is {printed.strip()!r}"
        )
    return None


def build(say: Say, recipe: Recipe = CLUSTER) -> Programs:
    """Compile what is missing, and say how far it is; of two that ask at once, one waits for the other."""
    programs = cached(recipe)
    if programs.complete():
        return programs
    programs.folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(programs.folder.with_suffix(".lock"), say):
        if not programs.complete():
            _build_into(programs.folder, recipe, say)
    return programs


def _build_into(folder: Path, recipe: Recipe, say: Say) -> None:
    started = time.monotonic()
    say(f"compiling {recipe.words}")
    prefix = f"building-{folder.name}-"
    for left in folder.parent.glob(f"{prefix}*"):  # by a run that was killed
        shutil.rmtree(left, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=prefix) as made_name:
        made = Path(made_name)
        _compile(made, recipe, say)
        for name, package in recipe.packages.items():
            (made / _built_name(package)).rename(made / name)
        source = subprocess.run(
            ["go", "list", "-m", "-f", "{{.Dir}}", recipe.files_of],
            cwd=recipe.folder, env=_environment(), capture_output=True, text=True, check=True,
        ).stdout.strip()  # fmt: skip
        for name in recipe.files:
            (made / Path(name).name).write_bytes(Path(source, name).read_bytes())
        # A half-made folder of an earlier day would stand in the way; whole ones are never replaced.
        shutil.rmtree(folder, ignore_errors=True)
        (made / "whole").mkdir()
        for path in [path for path in made.iterdir() if path.is_file()]:
            path.rename(made / "whole" / path.name)
        (made / "whole").rename(folder)
    say(f"compiled in {time.monotonic() - started:.0f} s, into {folder}")


def _compile(out: Path, recipe: Recipe, say: Say) -> None:
    """Run ``go build``, which names each package when it begins with it."""
    command = ["go", "build", "-v", "-trimpath", "-tags", "no_btrfs", "-ldflags", _link_flags(recipe), "-o", f"{out}/"]
    started = said = time.monotonic()
    count, tail = 0, [""]
    with subprocess.Popen(
        [*command, *recipe.packages.values()],
        cwd=recipe.folder, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        for line in process.stderr:
            count += not line.startswith("go: ")
            tail = [*tail[-20:], line]
            if time.monotonic() - said > SECONDS_BETWEEN_LINES:
                said = time.monotonic()
                say(f"{said - started:.0f} s, {count} packages, now {line.strip()}")
    if process.returncode != 0:
        raise BuildFailed(f"go build ended with {process.returncode}:\n{''.join(tail)}")


def _link_flags(recipe: Recipe) -> str:
    """The release that ``go.mod`` names, such as v1.37.2, is what the programs say they are."""
    found = re.search(r"^\s*k8s.io/kubernetes (v\S+)", (recipe.folder / "go.mod").read_text(), re.MULTILINE)
    flags = "-s -w"
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version") if found else ():
        version, minor = found[1], found[1].split(".")[1]
        flags += f" -X {package}.gitVersion={version} -X {package}.gitMajor=1 -X {package}.gitMinor={minor}"
    return flags


def _built_name(package: str) -> str:
    """What ``go build`` calls a program: the last part of its package that is no version."""
    return next(part for part in reversed(package.split("/")) if re.fullmatch(r"v\d+", part) is None)


def _environment() -> dict[str, str]:
    return {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off"}


@contextmanager
def _locked(path: Path, say: Say) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another run is compiling the same programs: waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


if __name__ == "__main__":
    for recipe in (CLUSTER, KUEUE):
        reason = why_not(recipe)
        if reason is not None:
            sys.exit(reason)
        print(build(lambda line: print(f"test cluster: {line}", file=sys.stderr, flush=True), recipe).folder)
