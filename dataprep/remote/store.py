"""A place in a bucket, through obstore, with its traps avoided; no thread of it survives a fork.

Whoever forks must do so before the first request: obstore's runtime hangs in a forked child.
Downloads are not checked by the store, so whoever reads compares hashes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dataprep.errors import RemoteError, UsageError
from dataprep.system.messages import printable

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_ADDRESS: Final = re.compile(r"(s3|gs|az)://([^/?#]+)/?([^?#]*)")
_VARIABLES: Final = {
    "s3": "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_APPLICATION_CREDENTIALS",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}
# Without any, the stores' clients ask the machine they might run on.
_NO_CREDENTIALS: Final = ("redential", "169.254.169.254", "Account must be", "Unauthorized")
_CHUNK: Final = 8 << 20  # bytes of a part of an upload
_HASH: Final = "sha256"  # what an object's metadata call it


@dataclass(frozen=True)
class RemoteObject:
    """What a store says of an object.

    Attributes:
        sha256: what whoever put it says its content has; empty if nothing.
        etag: changes with the content; no hash of it.
    """

    bytes: int
    sha256: str
    etag: str


@dataclass(frozen=True)
class Store:
    """A place in a bucket.

    Attributes:
        address: ``s3://bucket/prefix``, ``gs://…`` or ``az://…``.

    Raises:
        UsageError: the address is none, or obstore is not installed.
        RemoteError: there are no credentials.
    """

    address: str
    _store: ObjectStore = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        found = _ADDRESS.fullmatch(self.address)
        if found is None:
            raise UsageError(
                f"{printable(self.address)} is no place in a bucket; expected s3://BUCKET/PREFIX, "
                "gs://BUCKET/PREFIX or az://CONTAINER/PREFIX"
            )
        try:
            from obstore.store import from_url
        except ModuleNotFoundError as error:
            raise UsageError(
                "buckets need obstore: pip install 'dataprep-shards[remote]'"
            ) from error
        with self._explained("opened"):
            object.__setattr__(self, "_store", from_url(self.address.rstrip("/")))

    def find(self, path: str) -> RemoteObject | None:
        """What there is of a name; None if nothing.

        Raises:
            RemoteError: the store does not answer, or refuses.
        """
        import obstore

        with self._explained(path):
            try:
                found = obstore.get(self._store, path, options={"head": True})
            except FileNotFoundError:
                return None
            said: Any = found.attributes.get(_HASH, "")
            return RemoteObject(found.meta["size"], str(said), found.meta["e_tag"] or "")

    def read(self, path: str) -> bytes | None:
        """A whole small object; None if there is none.

        Raises:
            RemoteError: the store does not answer, or refuses.
        """
        import obstore

        with self._explained(path):
            try:
                return bytes(obstore.get(self._store, path).bytes())
            except FileNotFoundError:
                return None

    def put(self, path: str, pieces: Iterator[bytes], sha256: str) -> None:
        """Put a file there, in parts; whole or not at all, also if the pieces end in an error.

        Raises:
            RemoteError: the store does not answer, or refuses.
        """
        import obstore

        with self._explained(path):
            obstore.put(self._store, path, pieces, attributes={_HASH: sha256}, chunk_size=_CHUNK)

    def commit(self, path: str, data: bytes, sha256: str, before: RemoteObject | None) -> bool:
        """Put a small object there if nothing has changed it meanwhile.

        Args:
            before: what is replaced; None: there must be none.

        Returns:
            Whether it is there now; if not, somebody else was sooner.

        Raises:
            RemoteError: the store does not answer, or refuses.
        """
        import obstore
        from obstore.exceptions import AlreadyExistsError, PreconditionError

        mode: Any = "create" if before is None else {"e_tag": before.etag}
        with self._explained(path):
            try:
                obstore.put(self._store, path, data, mode=mode, attributes={_HASH: sha256})
            except (AlreadyExistsError, PreconditionError):
                # The answer to one's own first try may have been lost.
                return self.read(path) == data
            return True

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        """Say in one line what a store refuses, and what to do."""
        from obstore.exceptions import BaseError, PermissionDeniedError, UnauthenticatedError

        try:
            yield
        except (BaseError, OSError, ValueError) as error:
            scheme, _, rest = self.address.partition("://")
            reason = printable(str(error).strip().partition("\n")[0])[:200]
            denied = isinstance(error, (PermissionDeniedError, UnauthenticatedError))
            advice = "check the address and the network, and run the same command again"
            if denied or any(word in str(error) for word in _NO_CREDENTIALS):
                advice = f"set {_VARIABLES[scheme]}"
            raise RemoteError(
                f"{scheme}://{printable(rest)}: {printable(path)}: {reason}; {advice}"
            ) from error
