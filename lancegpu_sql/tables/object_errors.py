"""What an object store's refusals mean, told apart by the words in which Lance's client of it passes them on."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote

_FROM_STORE = re.compile(r"Generic (?:S3|N/A) error|Error performing [A-Z]+ https?://|Failed to get AWS credentials")
_REQUEST = re.compile(r"Error performing [A-Z]+ (https?://[^\s?]+)")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([\w.]+)</Code>")

_AGAIN = "What was committed is kept; try again"

_FULL = f"the store is full, or a quota is used up. {_AGAIN} once there is room"
_CREDENTIALS = (
    "it does not take these credentials, or they do not allow that. Correct aws_access_key_id and aws_secret_access_key in "
    "storage_options (or the variables AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY), and let them list, read, write and "
    "delete below the database's URL"
)
_NO_CREDENTIALS = (
    "no credentials for it were found. Give aws_access_key_id and aws_secret_access_key in storage_options, or the variables "
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
_NO_ANSWER = (
    "it does not answer. Check that it runs and that aws_endpoint names it (http:// needs allow_http=true as well), and try "
    "again; what was committed is kept"
)
_BUSY = f"it fails or is overloaded. {_AGAIN} later"
_REGION = "its bucket is in another region. Correct aws_region in storage_options"
_NO_REGION = "its region is not known. Give aws_region in storage_options (any, where the store has none, as us-east-1)"
_NO_BUCKET = "it has no such bucket. Make it, or correct the database's URL"

_BY_CODE = {
    "NoSuchBucket": (_NO_BUCKET, False),
    "PermanentRedirect": (_REGION, False),
    "AuthorizationHeaderMalformed": (_REGION, False),
    "QuotaExceeded": (_FULL, True),
    "XMinioStorageFull": (_FULL, True),
    "EntityTooLarge": (_FULL, False),
    "SlowDown": (_BUSY, True),
}
_BY_STATUS = {
    "301": (_REGION, False),
    "401": (_CREDENTIALS, False),
    "403": (_CREDENTIALS, False),
    "429": (_BUSY, True),
    "507": (_FULL, True),
}


@dataclass(frozen=True)
class Trouble:
    """What an error means, in words that suit after "could not be read or written:"; `retryable`: it may pass by itself."""

    told: str
    retryable: bool = False


def trouble(text: str) -> Trouble | None:
    """Return what an error of an object store means; None for one that is of another kind.

    Nothing of the store's answer is passed on but its code: some put the request's signature into it.
    """
    if not _FROM_STORE.search(text):
        return None
    status, code, request = _last(_STATUS, text), _last(_CODE, text), _last(_REQUEST, text)
    where = f" at {unquote(request)}" if request else ""
    said = f" ({' '.join(one for one in (status, code) if one)})" if status or code else ""
    told, retryable = _meaning(text, status, code)
    return Trouble(f"the object store{where}{said}: {told}", retryable)


def _meaning(text: str, status: str | None, code: str | None) -> tuple[str, bool]:
    if "AWS credentials" in text or "CredentialsNotLoaded" in text:
        return _NO_CREDENTIALS, False
    if "resolve region" in text:
        return _NO_REGION, False
    known = _BY_CODE.get(code or "") or _BY_STATUS.get(status or "")
    if known is not None:
        return known
    if status is not None:
        return (_BUSY, True) if status.startswith("5") else ("it refuses that", False)
    return _NO_ANSWER, True


def _last(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.findall(text)
    return found[-1] if found else None
