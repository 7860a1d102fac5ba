"""Names and labels of what the placement makes in a cluster; the same request always gives the same ones."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from lancegpu_sql.placement.pod_fields import MANAGED_BY, OWN_PREFIX
from lancegpu_sql.placement.request import WorkerRequest

MANAGER = "lancegpu"
CLASS_LABEL = f"{OWN_PREFIX}class"
FUNCTION_LABEL = f"{OWN_PREFIX}function"
VERSION_LABEL = f"{OWN_PREFIX}version"
JOB_LABEL = f"{OWN_PREFIX}job"
DATABASE_LABEL = f"{OWN_PREFIX}database"
OWNER_LABEL = f"{OWN_PREFIX}owner"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"

_VALUE_LENGTH = 63
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_DIGEST_LENGTH = 10


def label_value(text: str) -> str:
    """Return a text as a label's value: as it is where that is allowed, else its readable part and its digest.

    Two texts have two values.
    """
    if _LABEL_VALUE.fullmatch(text):
        return text
    return _readable(re.sub(r"[^A-Za-z0-9_.]+", "-", text), text, "-_.")


def dns_label(prefix: str, text: str, *salt: str) -> str:
    """Return a name for an object or a host: `prefix`, what can be read of `text`, and the digest of it all."""
    return _readable(f"{prefix}-" + re.sub(r"[^a-z0-9]+", "-", text.lower()), json.dumps([prefix, text, *salt]), "-")


def _readable(words: str, text: str, edges: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
    kept = words[: _VALUE_LENGTH - _DIGEST_LENGTH - 1].strip(edges)
    return f"{kept}-{digest}" if kept else digest


def worker_name(request: WorkerRequest, attempt: int = 0) -> str:
    """Return the name of a request's pod and Secret; one that replaces a pod is another attempt."""
    return dns_label(MANAGER, request.function, request.request_id, str(attempt))


def claim_template_name(gpu_class: str, spec: dict[str, Any], placement: str = "") -> str:
    """Return the name of a claim template: another spec, which could not be changed, has another name.

    So has another placement's, which goes when that one does.
    """
    salt = [placement] if placement else []
    return dns_label(MANAGER, gpu_class, json.dumps(spec, sort_keys=True), *salt)


def database_labels(database: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a database."""
    return {MANAGED_BY: MANAGER, DATABASE_LABEL: label_value(database)}


def job_labels(job_id: str, owner: str) -> dict[str, str]:
    """Return the labels that say for whom a worker works; they change when it is handed on."""
    return {JOB_LABEL: label_value(job_id), OWNER_LABEL: label_value(owner)}


def worker_labels(request: WorkerRequest, database: str) -> dict[str, str]:
    """Return the labels of a worker's pod and Secret."""
    return {
        **database_labels(database),
        **({} if request.gpu_class is None else {CLASS_LABEL: label_value(request.gpu_class.name)}),
        FUNCTION_LABEL: label_value(request.function),
        VERSION_LABEL: label_value(str(request.version)),
        **job_labels(request.job_id, request.owner),
    }


def selector(labels: dict[str, str]) -> str:
    """Return the label selector that finds what carries all these labels."""
    return ",".join(f"{key}={value}" for key, value in labels.items())
