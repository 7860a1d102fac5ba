"""Every knob, with its unit and its default: read from LANCEGPU_… environment variables and from keywords."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from lancegpu_sql.errors import InvalidInput

PREFIX = "LANCEGPU_"

# Variables with our prefix that are no settings: a worker's secret and its mark, and which database the command line opens.
NOT_SETTINGS = frozenset({"LANCEGPU_WORKER_TOKEN", "LANCEGPU_WORKER_MARK", "LANCEGPU_DB"})

_MIB = 1024 * 1024

# Thirty years: what every clock and every wait of the standard library, and Flight's, can still count.
MOST_SECONDS = 1e9
MOST = 2**63 - 1

_SHOWN_CHARACTERS = 100

_HIDDEN = "storage_options"
"""The setting that holds secrets: its values are never shown."""

# Up to the last @: one in a password should be written as %40, and is not always.
_PASSWORD = re.compile(r"(://[^\s:/@]*:)\S*(?=@)|((?<=[?&])password=)[^\s&]*", re.IGNORECASE)

Seconds = Annotated[float, Field(gt=0, le=MOST_SECONDS, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1, le=MOST)]


class Settings(BaseModel):
    """What an operator or a user may turn; each is documented in ``docs/settings.md``."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    gpu_classes: Path | None = Field(
        default=None, description="An operator's file of GPU classes (YAML), written to a database that has none."
    )
    runtime_folder: Path | None = Field(
        default=None,
        description="Where workers' sockets and the leases of this machine's devices stand; private to one user, on a "
        "local disk. By default /tmp/lancegpu-<user id>, the same for every login of a user.",
    )
    kubernetes_namespace: str | None = Field(
        default=None,
        description="Workers are pods in this namespace of a Kubernetes cluster. None: processes of this machine.",
    )
    kubernetes_context: str | None = Field(
        default=None,
        description="The context of the kubeconfig file by which that cluster is reached. None: the pod's own service "
        "account inside a cluster, the current context elsewhere.",
    )
    kubernetes_image: str | None = Field(
        default=None, description="What workers in pods run, where their GPU class names no image."
    )
    kubernetes_service_account: str | None = Field(
        default=None, description="The service account of workers in pods, where their GPU class names none."
    )
    kubernetes_reach: Literal["auto", "direct", "port_forward"] = Field(
        default="auto",
        description="How this process reaches workers in pods: `direct`, at their addresses; `port_forward`, through the API "
        "server, as from a laptop; `auto`: direct inside the cluster, and outside what works, direct first.",
    )
    kubernetes_cpu_ladder: str = Field(
        default="small 1 2GiB, medium 2 8GiB, large 4 32GiB",
        description="The sizes of workers of CPU Functions in pods, smallest first: a name, CPUs and memory. A worker killed "
        "for memory is replaced by one of the next size, and so do later workers of the Function begin.",
    )
    kubernetes_cpu_node_selector: str | None = Field(
        default=None,
        description="The labels of the nodes on which workers of CPU Functions run in pods, as `pool=cpu, disk=fast`. None: "
        "every node that is not marked as a GPU node.",
    )
    kubernetes_cpu_allowed_images: str | None = Field(
        default=None,
        description="What an image may be that a CPU Function names for its workers in pods, as `allowed_images` of a GPU class: "
        "`registry/ml/, registry/base:1.2`. None: any.",
    )
    kubernetes_gpu_node_labels: str | None = Field(
        default=None,
        description="The labels by which GPU nodes are known, as `pool-of-gpus, accelerator`: workers of CPU Functions stay off "
        "nodes that carry one of them. None: those of NVIDIA's operator and of the large clouds.",
    )
    kubernetes_image_pull_grace_seconds: float = Field(
        default=300.0,
        ge=0,
        le=MOST_SECONDS,
        allow_inf_nan=False,
        description="How long an image that cannot be pulled is waited for; then the job fails with the registry's message.",
    )
    kubernetes_orphan_seconds: Seconds = Field(
        default=60.0, description="After how long without its owner a worker in a pod ends by itself."
    )
    kubernetes_termination_grace_seconds: Count = Field(
        default=30,
        description="How long a worker in a pod that must go may take to finish or to hand back the call in flight.",
    )
    catalog: str | None = Field(
        default=None,
        description="The catalog's place: a path, or a URL of PostgreSQL, as postgresql://user@host/name, where agents on "
        "several hosts serve one database. By default a SQLite file in the database's folder.",
    )
    storage_options: dict[str, str] | None = Field(
        default=None,
        description="How the object store of a database at s3://… is reached: Lance's names, such as aws_endpoint, and values, "
        "as `aws_region=eu-west-1, aws_secret_access_key=env:MY_SECRET`. `env:NAME` stands for a variable, `file:/path` for what "
        "a file holds. None: the variables AWS_…, or what the machine's role grants.",
    )
    state_folder: Path | None = Field(
        default=None,
        description="Where this host keeps what belongs to databases in object stores: logs of jobs, locks, parts being "
        "computed. By default `lancegpu` in the user's state folder ($XDG_STATE_HOME, ~/.local/state).",
    )
    catalog_busy_timeout_seconds: Seconds = Field(
        default=30.0,
        description="How long a change of the catalog waits for another process's, and a call for a PostgreSQL server that has "
        "gone away.",
    )
    worker_idle_seconds: float = Field(
        default=60.0,
        ge=0,
        le=MOST_SECONDS,
        allow_inf_nan=False,
        description="How long a worker that nobody uses is kept warm, where its GPU class does not say. It goes at once when "
        "another job waits for what it holds.",
    )
    environment_folder: Path | None = Field(
        default=None,
        description="Where the environments of Functions that ask for packages are made, each once for all jobs of the machine; "
        "private to one user. By default `lancegpu/environments` in the user's cache folder.",
    )
    environment_builds: bool = Field(
        default=False,
        description="Whether packages that come without a wheel may be built for such an environment, which runs their own code "
        "where a Function is registered and where its environment is made.",
    )
    secret_sources: str | None = Field(
        default=None,
        description="Where `secrets` of Functions may come from, as patterns: `env:HF_*, file:/run/secrets/*, "
        "kubernetes:models/*`. None: from anywhere where workers run on this machine, from nowhere where they run on a cluster.",
    )
    init_timeout_seconds: Seconds | None = Field(
        default=600.0,
        description="How long a worker may take to load a Function (imports, model weights). None: for ever.",
    )
    call_timeout_seconds: Seconds | None = Field(
        default=None, description="How long one call of a Function may take. None: for ever."
    )
    max_workers: Count | None = Field(
        default=None,
        description="The most workers one refresh uses. None: as many as there are cores, or free devices for GPU "
        "Functions; on a cluster as many as pay and have room.",
    )
    max_worker_losses: Annotated[int, Field(ge=0, le=MOST)] = Field(
        default=3, description="How many workers may die over the same rows before these are blamed."
    )
    max_wait_seconds: Seconds | None = Field(
        default=None,
        description="How long a job may wait for room for a worker at a time; then it fails, and says for what it waited. None: "
        "however long.",
    )
    part_target_seconds: Seconds = Field(
        default=30.0,
        description="How long one part should take to compute: about this much work is lost when a process is killed.",
    )
    max_part_rows: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=1_000_000, description="The most rows of one part."
    )
    call_target_bytes: Count = Field(
        default=4 * _MIB,
        description="About how many bytes of arguments go into one call, where the Function names no batch_size.",
    )
    in_flight_calls: Count = Field(
        default=3, description="How many calls are on their way to one worker at once, so that it never waits for rows."
    )
    in_flight_bytes: Count = Field(
        default=64 * _MIB, description="The most bytes of arguments on their way to one worker at once."
    )
    read_ahead_bytes: Count = Field(
        default=64 * _MIB, description="The most bytes of rows read from a table before a worker asks for them."
    )
    query_memo_bytes: Annotated[int, Field(ge=0, le=MOST)] = Field(
        default=64 * _MIB,
        description="The most bytes of values of one Function that a query keeps, so that equal arguments are computed once; "
        "beyond that, a value may be computed again. 0 keeps none.",
    )
    view_result_store_bytes: Annotated[int, Field(ge=0, le=MOST)] = Field(
        default=1024 * _MIB,
        description="The most bytes on disk of Functions' results that refreshes of views keep, so that an input is computed "
        "once; those of use longest ago go first. 0 keeps none.",
    )
    publication_interval_rows: Count | None = Field(
        default=None,
        description="A refresh shows its results to readers each time it has this many more. None: once, at its end.",
    )
    lease_seconds: Annotated[float, Field(ge=1, le=MOST_SECONDS)] = Field(
        default=30.0,
        description="How long after the death of a process on another host its jobs are taken over at the latest; on the "
        "same host it is known at once. The same for all processes of a database.",
    )
    shutdown_grace_seconds: Seconds = Field(
        default=20.0,
        description="How long an agent that is told to end lets its jobs finish what they are at; then they are given back.",
    )
    agent_concurrency: Count = Field(
        default=32,
        description="The most jobs one agent begins to run at a time. Those that wait for a GPU class are not among them: they "
        "hold up nobody, and go on when there is room.",
    )
    agent_waiting_jobs: Count = Field(
        default=256,
        description="The most jobs of one agent that wait at a time, a thread each; while so many wait it begins no others.",
    )
    on_change_debounce_seconds: Seconds = Field(
        default=2.0,
        description="How long after a change of a source a refresh with the schedule `on change` is due; further changes until "
        "then are part of the same refresh.",
    )
    hook_timeout_seconds: Seconds = Field(
        default=10.0, description="How long one call of a schedule's webhook or command may take."
    )
    hook_commands: bool = Field(
        default=True,
        description="Whether an agent runs the commands of schedules' hooks, as the user that it runs as. Turn it off where not "
        "everyone who may set schedules is trusted with that.",
    )
    job_retention_days: Annotated[float, Field(gt=0, le=MOST_SECONDS / 86_400, allow_inf_nan=False)] = Field(
        default=30.0, description="How long jobs that ended are kept, with their events and logs."
    )
    checkpoint_retention_days: Annotated[float, Field(gt=0, le=MOST_SECONDS / 86_400, allow_inf_nan=False)] = Field(
        default=30.0,
        description="How long upkeep leaves what a refresh computed and never published, where nobody goes on with its job.",
    )
    environment_retention_days: Annotated[float, Field(gt=0, le=MOST_SECONDS / 86_400, allow_inf_nan=False)] = Field(
        default=30.0,
        description="How long upkeep leaves an environment of this machine that no worker used and no Function of the database "
        "needs.",
    )
    maintenance: bool = Field(
        default=True,
        description="Whether agents look after tables by themselves: small fragments, old versions, checkpoints and files that "
        "nobody needs any more.",
    )
    maintenance_interval_seconds: Seconds = Field(
        default=3600.0, description="How often an agent looks whether a table needs that."
    )
    maintenance_small_fragments: Annotated[int, Field(ge=2, le=MOST)] = Field(
        default=10, description="From so many small fragments side by side on, agents make them one."
    )
    maintenance_keep_versions_seconds: Annotated[float, Field(ge=0, le=MOST_SECONDS, allow_inf_nan=False)] | None = (
        Field(
            default=604_800.0,
            description="Agents remove versions of tables whose place another one took longer ago, a week by default. What somebody "
            "still needs stays: a tag, a view, a query, a job. None keeps all.",
        )
    )
    job_log_bytes: Count = Field(
        default=64 * _MIB, description="The most bytes one job's log may take; what comes later is left out."
    )
    job_errors_kept: Annotated[int, Field(ge=0, le=100_000)] = Field(
        default=1_000,
        description="Of the rows that fail in one job, for how many it is kept why. How many failed is always known.",
    )
    progress: Literal["auto", "bar", "lines", "quiet"] = Field(
        default="auto",
        description="How a refresh shows its progress: `bar` (for a terminal), `lines` (for a log: a line for each phase, "
        "and every 5 s), `quiet` (one final line), or `auto`: a bar on a terminal, quiet in a notebook, lines elsewhere.",
    )

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """Show all but passwords."""
        for name, value in super().__repr_args__():
            if name == _HIDDEN and value is not None:
                yield name, dict.fromkeys(value, "***")
            else:
                yield name, masked(value) if isinstance(value, str) else value

    @field_validator(_HIDDEN, mode="before")
    @classmethod
    def _read_pairs(cls, given: Any) -> Any:
        """Read a text of `name=value, name=value`, as a variable has it."""
        if not isinstance(given, str):
            return given
        pairs = [one.strip().partition("=") for one in given.split(",") if one.strip()]
        if any(not (name.strip() and equals) for name, equals, _ in pairs):
            raise ValueError("must be a text such as 'aws_region=eu-west-1, allow_http=true'")
        return {name.strip(): value.strip() for name, _, value in pairs}

    @classmethod
    def load(cls, environment: Mapping[str, str] | None = None, /, **overrides: Any) -> Self:
        """Read the settings: a keyword wins over a variable, a variable over the default.

        Parameters
        ----------
        environment
            Where variables are read; the process's own by default. ``LANCEGPU_MAX_WORKERS=4`` sets `max_workers`; an
            empty value or ``none`` sets None where that is allowed.
        **overrides
            Values by their names.

        Raises
        ------
        InvalidInput
            A name that is no setting, or a value that does not suit; `setting` names it.
        """
        given: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for variable, text in (os.environ if environment is None else environment).items():
            if variable.startswith(PREFIX) and variable not in NOT_SETTINGS:
                name = variable.removeprefix(PREFIX).lower()
                cls._check_known(name, variable)
                given[name] = None if text.strip().lower() in ("", "none") else text
                sources[name] = variable
        for name, value in overrides.items():
            cls._check_known(name, name)
            given[name] = value
            sources[name] = name
        try:
            return cls(**given)
        except ValidationError as error:
            first = error.errors()[0]
            name = str(first["loc"][0])
            given_as = sources[name] if name == _HIDDEN else f"{sources[name]}={shown(first['input'])}"
            told = f"{given_as} does not suit: it {requirement(first)}. "
            told += f"{cls.model_fields[name].description}"
            raise InvalidInput(told, setting=name) from error

    @classmethod
    def _check_known(cls, name: str, spelled: str) -> None:
        if name in cls.model_fields:
            return
        raise InvalidInput(
            f"{spelled} is no setting.{_suggestion(name, spelled, cls.model_fields)} docs/settings.md lists them all.",
            setting=name,
        )


def _suggestion(name: str, spelled: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, known, n=1)
    if not close:
        return ""
    return f" Did you mean {PREFIX + close[0].upper() if spelled.startswith(PREFIX) else close[0]}?"


def masked(text: str) -> str:
    """Return a text with the passwords of the URL in it made unreadable."""
    return _PASSWORD.sub(lambda found: f"{found[1] or found[2]}***", text)


def shown(value: object) -> str:
    """Return a value as a message shows it: a line of it, and never an error."""
    try:
        text = masked(repr(value))
    except Exception:  # a number of thousands of digits; a `__repr__` of a user's
        return f"<{type(value).__name__}>"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def requirement(fault: Mapping[str, Any]) -> str:
    """Return what a value should have been, from pydantic's account of it, in words that suit after its name."""
    bounds = fault.get("ctx", {})
    match fault["type"]:
        case "greater_than":
            return f"must be more than {_number(bounds['gt'])}"
        case "greater_than_equal":
            return f"must be {_number(bounds['ge'])} or more"
        case "less_than_equal":
            return f"must be {_number(bounds['le'])} or less"
        case "literal_error":
            return f"must be {bounds['expected']!s}"
        case "finite_number":
            return "must be a number, and not an endless one"
        case "string_type":
            return "must be a text"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "must be a mapping of names to values"
        case "tuple_type" | "list_type":
            return "must be a list"
        case kind if kind.startswith("int_"):
            return "must be a whole number"
        case kind if kind.startswith("float_"):
            return "must be a number"
        case kind if kind.startswith("bool_"):
            return "must be true or false"
        case kind if kind.startswith("path_"):
            return "must be a path"
        case _:
            return str(fault["msg"]).removeprefix("Value error, ")


def _number(bound: float) -> str:
    return str(int(bound) if bound == int(bound) else bound)
