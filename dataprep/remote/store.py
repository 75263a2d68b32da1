"""A place in a bucket, through obstore, with its traps avoided; no thread of it survives a fork.

Whoever forks must do so before the first request: obstore's runtime hangs in a forked child; see
`dataprep.remote.process`. Downloads are not checked by the store, so whoever reads compares hashes.
"""

from __future__ import annotations

import hashlib
import os
import random
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dataprep.errors import DatasetError, RemoteError, UsageError
from dataprep.system.messages import printable, refuse_secrets, sized
from dataprep.system.regular_files import MOST_BYTES

if TYPE_CHECKING:
    from obstore import GetResult
    from obstore.store import ObjectStore

_Result = TypeVar("_Result")

_ADDRESS: Final = re.compile(r"(s3|gs|az)://([^/?#]+)/?([^?#]*)")
_CUT: Final = re.compile(r"(s3|gs|az):/(?!/)")  # what `Path` makes of an address
_VARIABLES: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
# Without any, the stores' clients ask the machine they might run on.
_NO_CREDENTIALS: Final = (
    *("redential", "169.254.169.254", "metadata.google", "Account must be", "Unauthorized"),
)
_EXPIRED: Final = re.compile(r"ExpiredToken|RequestExpired|TokenRefreshRequired|token.*expired")
# What S3 calls a bad request, and is the network's trouble: a body that came late, or damaged.
_PASSING: Final = re.compile(r"RequestTimeout<|BadDigest|ContentSHA256Mismatch")
# Statuses that come again: not 408 and 429. How long the request took stands there, too.
_FINAL: Final = re.compile(r"status code: 4(?!08|29)\d\d\b")
_NO_BUCKET: Final = re.compile(r"<Code>(NoSuchBucket|ContainerNotFound)</Code>")
_SECRET: Final = re.compile(r"://[^/@\s]+@")  # of an endpoint with a password
_MOST_LISTED: Final = 1 << 23  # objects: a data set has a million shards at most
_CHUNK: Final = 8 << 20  # bytes of a part of an upload
_HASH: Final = "sha256"  # what an object's metadata call it
_AT_ONCE: Final = 4  # requests for one object
_TRIES, _FIRST = 10, 4
_UPLOADS: Final = 4  # of a file, each of whose requests is tried for three minutes
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 15.0  # seconds, before what failed is tried again
# A stalled body ends by the second; the third is for all of a part at 70 KB/s.
_TIMEOUTS: Final = {"connect_timeout": "10s", "read_timeout": "30s", "timeout": "120s"}
# What the environment says of the client has no effect once a client gets any options.
_CLIENT: Final = ("allow_http", "allow_invalid_certificates", "proxy_url", "proxy_ca_certificate")
_PREFIXES: Final = {"s3": "AWS", "gs": "GOOGLE", "az": "AZURE"}
_OWN_KEYS: Final = (
    *("AWS_ACCESS_KEY_ID", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"),
    *("AWS_CONTAINER_CREDENTIALS_FULL_URI",),
)
_AMAZON: Final = re.compile(r"https://s3(\.[a-z0-9-]+)?\.amazonaws\.com")
_ENDPOINTS: Final = ("AWS_ENDPOINT_URL_S3", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS")
_PROFILES: Final = {
    "AWS_SHARED_CREDENTIALS_FILE": "~/.aws/credentials",
    "AWS_CONFIG_FILE": "~/.aws/config",
}


def address_of(place: str | os.PathLike[str]) -> str | None:
    """The address in a bucket that a path stands for; None if it is a path of this machine.

    Raises:
        UsageError: a password or a signature is in it, which would be printed and kept.
    """
    text = _CUT.sub(r"\1://", os.fspath(place))
    refuse_secrets(text)
    return text.rstrip("/") if _ADDRESS.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class RemoteObject:
    """What a store says of an object."""

    bytes: int
    sha256: str  # what whoever put it says its content has; empty if nothing, and in a listing
    etag: str  # changes with the content; no hash of it


class Store:
    """A place in a bucket; for all threads of a process.

    Credentials are asked for at the first request. What fails and may pass is tried again, with
    growing pauses, ten times; with other credentials if those it has are expired. Where it does not
    pass, or the store refuses, each method raises `RemoteError`. A pickled one has no secret in it.

    Args:
        address: ``s3://bucket/prefix``, ``gs://…`` or ``az://…``.

    Attributes:
        retried: requests that were tried again.

    Raises:
        UsageError: the address is none, or obstore is not installed.
    """

    def __init__(self, address: str) -> None:
        if address.startswith("hf://"):
            raise UsageError(
                "the Hugging Face hub has a program of its own: hf upload ORG/NAME OUT "
                "--repo-type dataset, best of --sink parquet, with dataprep card OUT before"
            )
        if address_of(address) is None:
            raise UsageError(
                f"{printable(address)} is no place in a bucket; expected s3://BUCKET/PREFIX, "
                "gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
            )
        try:
            import obstore  # noqa: F401  # an extra
        except ModuleNotFoundError as error:
            raise UsageError(
                "buckets need obstore: pip install 'dataprep-shards[remote]'"
            ) from error
        self.address = address.rstrip("/")
        self.retried = 0
        self._answered = False
        self._turn = threading.Lock()
        self._clients: tuple[ObjectStore, ObjectStore] | None = None

    def __reduce__(self) -> tuple[type[Store], tuple[str]]:
        return Store, (self.address,)

    def __repr__(self) -> str:
        """Its address, and no secret."""
        return f"Store({self.address!r})"

    def __str__(self) -> str:
        """Its address."""
        return self.address

    def find(self, path: str) -> RemoteObject | None:
        """What there is of a name; None if nothing."""
        import obstore
        from obstore.exceptions import GenericError

        def find(store: ObjectStore) -> RemoteObject:
            try:
                found = obstore.get(store, path, options={"head": True})
            except GenericError as error:
                if "status code: 400" not in str(error):
                    raise
                # Why is said in a body only, as that the credentials have expired.
                obstore.get(store, path, options={"range": (0, 1)})
                raise ConnectionError("HEAD was refused, and GET was not") from error
            said: Any = found.attributes.get(_HASH, "")
            return RemoteObject(found.meta["size"], str(said), found.meta["e_tag"] or "")

        with suppress(FileNotFoundError):
            return self._tried(path, find, absent=True)
        return None

    def table_at(self, path: str, sha256: str) -> str:
        """Where a table is that has this hash; while a set grows, under a name of its own.

        So who reads the old manifest finds the old table, and who reads the new one the new.
        """
        found, own = self.find(path), own_name(path, sha256)
        as_said = found is not None and found.sha256 in ("", sha256)
        return path if as_said or self.find(own) is None else own

    def read(self, path: str) -> bytes | None:
        """A whole small object; None if there is none.

        Raises:
            RemoteError: the object is damaged.
        """
        import obstore

        def read(store: ObjectStore) -> bytes:
            found = obstore.get(store, path)
            if (size := found.meta["size"]) > MOST_BYTES:
                raise RemoteError(
                    f"{self.address}: {printable(path)} has {sized(size)}, and {sized(MOST_BYTES)} "
                    "at most are read at once; see what it is"
                )
            data, said = bytes(_body(found, size)), found.attributes.get(_HASH, "")
            if said and said != hashlib.sha256(data).hexdigest():
                raise ConnectionError("its SHA-256 is not what whoever put it there has said")
            return data

        with suppress(FileNotFoundError):
            return self._tried(path, read, absent=True)
        return None

    def read_range(self, path: str, start: int, size: int, etag: str = "") -> memoryview:
        """So many bytes of an object, which has them.

        Args:
            etag: what the object must have; empty: any.

        Raises:
            FileNotFoundError: there is none.
            RemoteError: the object has another ETag.
        """
        import obstore
        from obstore.exceptions import PreconditionError

        options: Any = {"range": (start, start + size), **({"if_match": etag} if etag else {})}

        def read(store: ObjectStore) -> memoryview:
            answer = obstore.get(store, path, options=options)
            if (there := answer.meta["size"]) < start + size:
                raise PreconditionError(f"it has {there:,} bytes, expected {start + size:,}")
            return _body(answer, size)

        return self._tried(path, read, absent=True) if size else memoryview(b"")

    def pieces(self, path: str, size: int, largest: int) -> Iterator[memoryview]:
        """An object in pieces, some of which are under way at a time; in their order.

        Raises:
            FileNotFoundError: there is none.
        """
        ranges = ((start, min(largest, size - start)) for start in range(0, size, largest))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            under_way = deque(
                pool.submit(self.read_range, path, *each) for each in islice(ranges, _AT_ONCE)
            )
            try:
                while under_way:
                    yield under_way.popleft().result()
                    under_way += [
                        pool.submit(self.read_range, path, *each) for each in islice(ranges, 1)
                    ]
            finally:
                for each in under_way:
                    each.cancel()

    def list(self, most: int = _MOST_LISTED) -> Iterator[tuple[str, RemoteObject]]:
        """Every object below, by its path; of raw data, where no manifest says what there is.

        Args:
            most: it ends behind so many.
        """
        import obstore

        def collect(store: ObjectStore) -> list[Any]:
            pages = obstore.list(store, chunk_size=1000)
            return [*islice((meta for page in pages for meta in page), most)]

        for meta in self._tried("", collect):
            yield meta["path"], RemoteObject(meta["size"], "", meta["e_tag"] or "")

    def put(self, path: str, pieces: Callable[[], Iterator[bytes]], sha256: str) -> None:
        """Put a file there, in parts; whole or not at all, also if the pieces end in an error.

        Args:
            pieces: the content, from its start; called again if all is to be tried again.
        """
        import obstore

        def put(store: ObjectStore) -> None:
            attributes: Any = {_HASH: sha256}
            obstore.put(store, path, pieces(), attributes=attributes, chunk_size=_CHUNK)

        self._tried(path, put, most=_UPLOADS, patient=True)

    def commit(self, path: str, data: bytes, sha256: str, before: RemoteObject | None) -> bool:
        """Put a small object there if nothing has changed it meanwhile.

        Args:
            before: what is replaced; None: there must be none.

        Returns:
            Whether it is there now; if not, somebody else was sooner.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if before is None else {"e_tag": before.etag}

        def put(store: ObjectStore) -> bool:
            try:
                obstore.put(store, path, data, mode=mode, attributes={_HASH: sha256})
            except (AlreadyExistsError, PreconditionError):
                return False
            return True

        # The answer to one's own first try may have been lost.
        return self._tried(path, put) or self.read(path) == data

    def delete(self, paths: Sequence[str]) -> None:
        """Delete objects."""
        import obstore

        for path in paths:
            with suppress(FileNotFoundError):
                self._tried(path, partial(obstore.delete, paths=path), absent=True)

    def _opened(self) -> tuple[ObjectStore, ObjectStore]:
        """What asks once, and what sends parts of an upload again by itself."""
        from obstore.exceptions import BaseError
        from obstore.store import from_url

        scheme, _, _ = self.address.partition(":")
        options: Any = {**_TIMEOUTS}
        for name in _CLIENT:
            if value := os.environ.get(f"{_PREFIXES[scheme]}_{name.upper()}"):
                options[name] = value

        def opened(**retries: Any) -> ObjectStore:
            return from_url(self.address, client_options=options, **retries, **_profile(scheme))

        try:
            return opened(retry_config={"max_retries": 0}), opened()
        except (BaseError, OSError, ValueError) as error:
            raise self._explained("opened", error) from _cause(error)

    def _tried(
        self,
        path: str,
        act: Callable[[ObjectStore], _Result],
        *,
        absent: bool = False,
        most: int = _TRIES,
        patient: bool = False,
    ) -> _Result:
        """Do it, and again while what fails may pass; `most` times.

        Raises:
            FileNotFoundError: there is no such object, and it may be `absent`.
            RemoteError: it does not pass.
        """
        from obstore.exceptions import BaseError

        tried = 0
        while True:
            tried += 1
            with self._turn:
                clients = self._clients = self._clients or self._opened()
            try:
                found = act(clients[patient])
            except (BaseError, OSError, ValueError) as error:
                gone = isinstance(error, FileNotFoundError) and not _NO_BUCKET.search(str(error))
                if absent and gone:
                    self._answered = True
                    raise
                expired = _EXPIRED.search(str(error)) is not None
                # Where nothing has ever answered, the address may be wrong.
                silent = not self._answered and "sending request" in str(error)
                if tried >= (_FIRST if silent else most) or not (expired or _may_pass(error)):
                    raise self._explained(path, error) from _cause(error)
                with self._turn:
                    self.retried += 1
                    if expired and self._clients is clients:
                        self._clients = None  # asks for credentials anew
            else:
                self._answered = True
                return found
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0**tried)
            time.sleep(random.uniform(pause / 4, pause))  # noqa: S311  # so that not all come at once

    def _explained(self, path: str, error: Exception) -> RemoteError:
        """In one line what a store refuses, and what to do."""
        from obstore.exceptions import (
            PermissionDeniedError,
            PreconditionError,
            UnauthenticatedError,
        )

        scheme, _, rest = self.address.partition("://")
        first = str(error).strip().partition("\n")[0]
        reason = printable(_SECRET.sub("://", first))[:200]
        advice = "check the address and the network, and run the same command again"
        if _NO_BUCKET.search(str(error)):
            reason = f"there is no bucket {printable(rest.partition('/')[0])}"
            advice = "check the address, or make the bucket, and run the same command again"
        elif isinstance(error, PreconditionError) or "status code: 416" in str(error):
            advice = "somebody has changed the object: run the same command again"
        elif "builder error" in str(error):
            advice = f"an endpoint without TLS needs {_PREFIXES[scheme]}_ALLOW_HTTP=true"
        elif _EXPIRED.search(str(error)):
            advice = f"get new credentials: {_VARIABLES[scheme]}"
        elif isinstance(error, (PermissionDeniedError, UnauthenticatedError)) or _lacks(error):
            advice = (
                f"set {_VARIABLES[scheme]}, or {_PREFIXES[scheme]}_SKIP_SIGNATURE=true if public"
            )
        return RemoteError(f"{scheme}://{printable(rest)}: {printable(path)}: {reason}; {advice}")


def _body(found: GetResult, size: int) -> memoryview:
    """What an answer has, which must be so many bytes; of more than these no more is held.

    Raises:
        ConnectionError: they are fewer or more.
    """
    pieces = iter(found.stream(min_chunk_size=max(size, 1)))
    first = memoryview(next(pieces, b""))
    more = len(first) == size and size > 0 and next(pieces, None)
    if len(first) != size or more:
        raise ConnectionError(f"{len(first):,} bytes{' and more' if more else ''} came of {size:,}")
    return first


def no_data_set(address: str) -> DatasetError:
    """What to say where there is no manifest."""
    return DatasetError(
        f"{address}: no manifest.json here, so no data set, or one whose upload has not ended; "
        "check the address, or run `dataprep push` again"
    )


def own_name(path: str, sha256: str) -> str:
    """A file's name that no other content has."""
    name, dot, suffix = path.rpartition(".")
    return f"{name}-{sha256[:16]}{dot}{suffix}"


def _may_pass(error: Exception) -> bool:
    """Whether a later try may succeed: the network's trouble, and the store's own."""
    from obstore.exceptions import GenericError

    status = _FINAL.search(str(error))
    wrong = "builder error" in str(error)  # an address without TLS, say, where that is not allowed
    gone = isinstance(error, FileNotFoundError)
    if _PASSING.search(str(error)) or (gone and "uploadId=" in str(error)):
        return True  # an upload that is gone has ended, and the answer was lost
    final = wrong or gone or status or _lacks(error)
    return isinstance(error, (GenericError, OSError)) and not final


def _cause(error: Exception) -> Exception | None:
    """What a traceback may show."""
    return None if _SECRET.search(str(error)) else error


def _lacks(error: Exception) -> bool:
    return any(word in str(error) for word in _NO_CREDENTIALS)


def _profile(scheme: str) -> dict[str, Any]:
    """What boto3 knows of S3: where it is, and credentials if the environment has none.

    Profiles, their roles, services and single sign-on are its, and obstore has none of it.

    Raises:
        UsageError: boto3 is not installed, or has no such profile.
    """
    named, own = os.environ.get("AWS_PROFILE"), any(map(os.environ.get, _OWN_KEYS))
    files = (os.environ.get(name, usual) for name, usual in _PROFILES.items())
    there = named or any(Path(name).expanduser().is_file() for name in files)
    if scheme != "s3" or not (there or any(map(os.environ.get, _ENDPOINTS))):
        return {}
    try:
        import boto3
        from botocore import UNSIGNED
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ModuleNotFoundError as error:
        raise UsageError(
            "profiles and endpoints of AWS need boto3: pip install 'dataprep-shards[remote]'"
        ) from error
    try:
        session = boto3.Session()
        region = os.environ.get("AWS_REGION") or session.region_name or "us-east-1"
        unsigned = Config(signature_version=UNSIGNED)  # so that it looks for no credentials
        found: dict[str, Any] = {"region": region}
        endpoint = session.client("s3", region_name=region, config=unsigned).meta.endpoint_url
        if not _AMAZON.fullmatch(endpoint) or any(map(os.environ.get, _ENDPOINTS)):
            found["endpoint"] = endpoint
        if (named or not own) and session.get_credentials() is not None:
            provider = Boto3CredentialProvider(session, ttl=timedelta(minutes=5))
            found["credential_provider"] = provider
    except (BotoCoreError, ValueError) as error:
        raise UsageError(f"{printable(str(error))}; check AWS_PROFILE and ~/.aws") from error
    return found
