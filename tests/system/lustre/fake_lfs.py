"""A stand-in for Lustre's `lfs`: exit codes, output and side effects of the real one.

Measured on `lfs` 2.17 where there is no Lustre, and read in its source and tests for the rest. Its
file system is an ordinary directory; layouts are kept in the JSON file that FAKE_LFS names. What
was run is appended to the file beside it that ends in ``.calls``, with what was in the directory.
"""
# ruff: noqa: T201  # a program that prints
# Importing pathlib would take as long as all the rest:
# ruff: noqa: PTH105, PTH112, PTH119, PTH120, PTH208

import getopt
import json
import os
import sys

Part = dict[str, int | str | None]
ALL = -1
MIB = 1 << 20
PATH = os.environ["FAKE_LFS"]
with open(PATH) as file:
    STATE = json.load(file)


class LfsError(Exception):
    """An exit code and what is said on stderr."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


# --- what is where ---


def on_lustre(path: str) -> bool:
    return bool(path == STATE["mount"]) or path.startswith(STATE["mount"] + "/")


def layout_of(path: str) -> list[Part]:
    """A directory has its parent's at the time when it was made: `freeze` sees to the time."""
    while on_lustre(path):
        if path in STATE["layouts"]:
            own: list[Part] = STATE["layouts"][path]
            return own
        path = os.path.dirname(path)
    default: list[Part] = STATE["default"]
    return default


def freeze(directory: str) -> None:
    """What is already there keeps what it has."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            freeze(entry.path)
            STATE["layouts"].setdefault(entry.path, layout_of(entry.path))


def save() -> None:
    with open(PATH + ".new", "w") as file:
        json.dump(STATE, file)
    os.replace(PATH + ".new", PATH)


# --- setstripe ---


def setstripe(words: list[str]) -> None:
    options, paths = getopt.getopt(words, "c:S:p:")
    given = dict(options)
    part: Part = {
        "count": int(given.get("-c", 1)),
        "size": int(given.get("-S", 4 * MIB)),
        "end": None,
    }
    part["pool"] = given.get("-p", "")
    for path in paths:
        name = os.path.basename(path)
        if not on_lustre(path):
            raise LfsError(25, f"setstripe error for '{name}': Inappropriate ioctl for device")
        if part["pool"] not in ("", *STATE["pools"]):
            raise LfsError(22, f"pool '{part['pool']}' does not exist")
        if not os.path.isdir(path):
            open(path, "x").close()  # a file with that layout
        if STATE["restricted"]:
            print(
                f"lfs setstripe: setstripe warning for '{name}': Setstripe is restricted by your "
                "administrator, default striping applied",
                file=sys.stderr,
            )
            continue
        freeze(path)
        STATE["layouts"][path] = [part]
    save()


# --- getstripe and df ---


def getstripe(words: list[str]) -> None:
    flag, path = words
    assert flag == "-d"
    if not on_lustre(path):
        raise LfsError(25, f"'{path}' not on a Lustre fs?: Inappropriate ioctl for device (25)")
    if STATE["mute"]:
        return
    parts = layout_of(path)
    if len(parts) == 1:
        print(shown(parts[0]))
        return
    print(f"  lcm_layout_gen:    3\n  lcm_mirror_count:  1\n  lcm_entry_count:   {len(parts)}")
    start: int | str | None = 0
    for part in parts:
        end = "EOF" if part["end"] is None else part["end"]
        print(
            "    lcme_id:             N/A\n    lcme_mirror_id:      0\n    lcme_flags:          0"
        )
        print(f"    lcme_extent.e_start: {start}\n    lcme_extent.e_end:   {end}")
        print(f"      {shown(part)}")
        start = part["end"]


def shown(part: Part) -> str:
    pool = f" pool:          {part['pool']}" if part["pool"] else ""
    return (
        f"stripe_count:  {part['count']} stripe_size:   {part['size']} pattern:       raid0 "
        f"stripe_offset: -1{pool}"
    )


def df(words: list[str]) -> None:
    place = words[-1] if words else STATE["mount"]
    if not on_lustre(place):
        print(f"df:{place} Not a Lustre filesystem")
        raise LfsError(95, "")
    mount = STATE["mount"]
    print("UUID                   1K-blocks        Used   Available Use% Mounted on")
    print(f"site-MDT0000_UUID      1000000       1000      999000   1% {mount}[MDT:0]")
    for index in range(STATE["osts"]):
        print(f"site-OST{index:04x}_UUID  9000000  1000  8999000   1% {mount}[OST:{index}]")
    print(f"\nfilesystem_summary:  144000000  16000  143984000   1% {mount}")


COMMANDS = {"setstripe": setstripe, "getstripe": getstripe, "df": df}


def note(words: list[str]) -> None:
    seen = os.listdir(words[-1]) if os.path.isdir(words[-1]) else []
    line = json.dumps({"words": words, "seen": sorted(seen)}) + "\n"
    descriptor = os.open(PATH + ".calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def run(name: str, words: list[str]) -> None:
    if name not in COMMANDS:
        raise LfsError(1, f"'{name}' is not a valid command")
    if name in STATE["fails"]:
        raise LfsError(STATE["fails"][name], "it\x1b[1m failed\n")
    COMMANDS[name](words)


def main(words: list[str]) -> int:
    note(words)
    try:
        run(words[0], words[1:])
    except LfsError as error:
        print(f"lfs {words[0]}: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
