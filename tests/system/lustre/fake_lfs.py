"""A stand-in for Lustre's `lfs`: exit codes, output and side effects of the real one.

Measured on `lfs` 2.17 where there is no Lustre, and read in its source and tests for the rest. Its
file system is an ordinary directory; layouts are kept in the JSON file that FAKE_LFS names. What
was run is appended to the file beside it that ends in ``.calls``, with what was in the directory.
"""
# ruff: noqa: T201  # a program that prints
# Importing pathlib would take as long as all the rest:
# ruff: noqa: PTH105, PTH110, PTH112, PTH113, PTH119, PTH120, PTH208

import getopt
import json
import os
import sys

USAGE, ALL = 4, -1
KIB, GIB = 1 << 10, 1 << 30
PATH = os.environ["FAKE_LFS"]
with open(PATH) as file:
    STATE = json.load(file)


class LfsError(Exception):
    """An exit code and what is said on stderr."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def usage(text):
    print("usage: setstripe [--component-end|-E <comp_end>] ... <directory|filename>")
    return LfsError(USAGE, text)


# --- what is where ---


def on_lustre(path):
    return path == STATE["mount"] or path.startswith(STATE["mount"] + "/")


def of_directory(path):
    """A directory has its parent's at the time when it was made: `freeze` sees to the time."""
    while on_lustre(path):
        if path in STATE["layouts"]:
            return STATE["layouts"][path]
        path = os.path.dirname(path)
    return STATE["default"]


def of_file(path):
    if path in STATE["layouts"]:
        return STATE["layouts"][path]
    layout = of_directory(os.path.dirname(path))
    parts = [{**part, "count": stripes(part["count"])} for part in layout["parts"]]
    return {**layout, "parts": parts}


def stripes(count):
    usable = STATE["osts"] - len(STATE["inactive"])
    return usable if count == ALL else min(count, usable)


def freeze(directory):
    """What is already there keeps what it has."""
    for entry in os.scandir(directory):
        if entry.is_dir(follow_symlinks=False):
            freeze(entry.path)
            STATE["layouts"].setdefault(entry.path, of_directory(entry.path))
        else:
            STATE["layouts"].setdefault(entry.path, of_file(entry.path))


def save():
    with open(PATH + ".new", "w") as file:
        json.dump(STATE, file)
    os.replace(PATH + ".new", PATH)


# --- setstripe ---


def size(text):
    digits, scale = text, 1
    if text[-1:].upper() in ("K", "M", "G"):
        digits, scale = text[:-1], {"K": KIB, "M": KIB**2, "G": GIB}[text[-1].upper()]
    if not digits.isdigit():
        raise usage(f"invalid stripe size '{text}'")
    count = int(digits) * scale
    if scale == 1 and count < 4096:
        count *= KIB
    if count % (64 * KIB):
        raise usage(f"invalid stripe size '{text}'")
    return count


def number(text, least, most):
    try:
        if least <= int(text) <= most:
            return int(text)
    except ValueError:
        pass
    raise usage(f"invalid number '{text}'")


def asked(words):
    try:
        options, paths = getopt.getopt(words, "c:S:i:p:E:L:o:n")
    except getopt.GetoptError as error:
        raise usage(str(error)) from error
    parts, part, targets = [], {}, []
    for flag, value in options:
        if flag == "-E":
            if part:
                parts.append(part)
            end = None if value in ("-1", "eof", "EOF") else size(value)
            part = {**(parts[-1] if parts else {}), "end": end}
        elif flag == "-c":
            part["count"] = number(value, -1, 2000)
        elif flag == "-S":
            part["size"] = size(value)
            if part["size"] >= 4 * GIB:
                raise LfsError(22, f"error: stripe size '{value}' over 4GB limit: Invalid argument")
        elif flag == "-i":
            number(value, -1, 65535)
        elif flag == "-p":
            part["pool"] = value
        elif flag == "-L" and "end" not in part:
            raise LfsError(22, f"Invalid pattern: '-L {value}', must be specified with -E")
        elif flag == "-o":
            targets += [int(index) for index in value.split(",")]
    if not paths:
        raise usage("no file name")
    composite = "end" in part
    plain = {"count": 1, "size": 4 * KIB**2, "end": None, "pool": ""}
    parts = [{**plain, **each} for each in [*parts, part]]
    if STATE["cap"] is not None:  # a site's wrapper around the real one
        for each in parts:
            if each["count"] == ALL or each["count"] > STATE["cap"]:
                each["count"] = STATE["cap"]
    return {"parts": parts, "composite": composite}, targets, paths


def setstripe(words):
    layout, targets, paths = asked(words)
    for path in paths:
        name = os.path.basename(path)
        if not os.path.isdir(os.path.dirname(path)):
            raise LfsError(2, f"unable to open '{path}': No such file or directory")
        pools = [part["pool"] for part in layout["parts"] if part["pool"]]
        if not on_lustre(path):
            if pools:
                raise LfsError(19, f"'{path}' is not on a Lustre filesystem: No such device")
            if not os.path.exists(path):
                open(path, "x").close()
            if layout["composite"]:
                raise LfsError(1, f"cannot create composite file '{name}': Inappropriate ioctl")
            raise LfsError(25, f"setstripe error for '{name}': Inappropriate ioctl for device")
        if set(pools) - set(STATE["pools"]):
            raise LfsError(22, f"pool '{pools[0]}' does not exist")
        if set(targets) & set(STATE["inactive"]):
            raise LfsError(121, f"inactive OST among your specified {len(targets)} OST(s)")
        if os.path.isfile(path):
            raise LfsError(17, f"setstripe error for '{name}': stripe already set")
        if not os.path.exists(path):
            open(path, "x").close()
        if STATE["restricted"]:
            print(
                f"lfs setstripe: setstripe warning for '{name}': Setstripe is restricted by your "
                "administrator, default striping applied",
                file=sys.stderr,
            )
            continue
        if os.path.isdir(path):
            freeze(path)
        STATE["layouts"][path] = layout
    save()


# --- getstripe and df ---

FIELDS = {"-c": "count", "-S": "size", "-i": "offset", "-p": "pool"}


def getstripe(words):
    try:
        options, paths = getopt.getopt(words, "dcSipyRq")
    except getopt.GetoptError as error:
        raise usage(str(error)) from error
    flags = [flag for flag, _ in options]
    if "-y" in flags and STATE["version"] < [2, 11]:
        raise usage("invalid option -- 'y'")
    for path in paths:
        if not os.path.exists(path):
            raise LfsError(2, f"cannot open '{path}'")
        if not on_lustre(path):
            raise LfsError(
                25,
                f"cb_getstripe: '{path}' not on a Lustre fs?: Inappropriate ioctl for device (25)",
            )
        directory = os.path.isdir(path)
        layout = of_directory(path) if directory else of_file(path)
        chosen = [FIELDS[flag] for flag in flags if flag in FIELDS]
        if STATE["mute"] and (STATE["mute"] == "all" or not chosen):
            continue
        if chosen:
            show_fields({**layout["parts"][-1], "offset": -1}, chosen)
        elif layout["composite"]:
            show_composite(layout["parts"], directory, yaml="-y" in flags, path=path)
        else:
            show_plain(layout["parts"][0], directory, yaml="-y" in flags, path=path)


def show_fields(part, chosen):
    if len(chosen) == 1:
        print(part[chosen[0]])
        return
    for field in chosen:
        name = field if field == "pool" else f"stripe_{field}"
        print(f"lmm_{name}:  {part[field]}")


def show_plain(part, directory, yaml, path):
    if directory:
        fields = [f"stripe_count:  {part['count']}", f"stripe_size:   {part['size']}"]
        if STATE["version"] >= [2, 12]:
            fields.append("pattern:       raid0")
        elif STATE["version"] >= [2, 10]:
            fields.append("pattern:       0")
        fields.append("stripe_offset: -1")
        if part["pool"]:
            fields.append(f"pool:          {part['pool']}")
        print(*fields, sep="\n" if yaml else " ")
        return
    if not yaml:
        print(path)
    print(*labelled(part, ""), sep="\n")
    if yaml:
        print("lmm_objects:\n      - l_ost_idx: 11\n        l_fid:     0x1c8917b:0x2:0x0\n")
    else:
        print("\tobdidx\t\t objid\t\t objid\t\t group")
        print("\t    11\t      29921659\t    0x1c8917b\t             0\n")


def labelled(part, margin):
    yield f"{margin}lmm_stripe_count:  {part['count']}"
    yield f"{margin}lmm_stripe_size:   {part['size']}"
    yield f"{margin}lmm_pattern:       raid0"
    yield f"{margin}lmm_layout_gen:    0"
    yield f"{margin}lmm_stripe_offset: 11"
    if part["pool"]:
        yield f"{margin}lmm_pool:          {part['pool']}"


def show_composite(parts, directory, yaml, path):
    new = STATE["version"] >= [2, 16]
    if not yaml and not directory:
        print(path)
    print(f"  lcm_layout_gen:    3\n  lcm_mirror_count:  1\n  lcm_entry_count:   {len(parts)}")
    if yaml and new:
        print("  components:")
    start = 0
    for index, part in enumerate(parts):
        end = "EOF" if part["end"] is None else part["end"]
        if yaml and not new:
            print(f"  component{index}:")
        head = "  - lcme_id:             " if yaml and new else "    lcme_id:             "
        print(f"{head}{index + 1}\n    lcme_mirror_id:      0\n    lcme_flags:          init")
        print(f"    lcme_extent.e_start: {start}\n    lcme_extent.e_end:   {end}")
        if yaml:
            print("    sub_layout:")
        if directory and not yaml:
            print(
                f"      stripe_count:  {part['count']}       stripe_size:   {part['size']}       "
                "pattern:       raid0       stripe_offset: -1",
                end=f"       pool:          {part['pool']}\n" if part["pool"] else "\n",
            )
        else:
            print(*labelled(part, "      "), sep="\n")
        if not directory:
            form = "- l_ost_idx: 0\n        l_fid: " if yaml else "- 0: { l_ost_idx: 0, l_fid: ["
            print(f"      lmm_objects:\n      {form}0x100000000:0x2:0x0{'' if yaml else '] }'}\n")
        start = part["end"]


def df(words):
    place = words[-1] if words else STATE["mount"]
    if not on_lustre(place):
        print(f"df:{place} Not a Lustre filesystem")
        raise LfsError(95, "")
    mount = STATE["mount"]
    print("UUID                   1K-blocks        Used   Available Use% Mounted on")
    print(f"site-MDT0000_UUID      1000000       1000      999000   1% {mount}[MDT:0]")
    for index in range(STATE["osts"]):
        if index in STATE["inactive"]:
            print(f"OST{index:04x}             : inactive device")
        else:
            state = STATE["states"].get(str(index), "")
            print(
                f"site-OST{index:04x}_UUID  9000000  1000  8999000   1% {mount}[OST:{index}]{state}"
            )
    print(f"\nfilesystem_summary:  144000000  16000  143984000   1% {mount}")


COMMANDS = {"setstripe": setstripe, "getstripe": getstripe, "df": df}


def note(words):
    seen = os.listdir(words[-1]) if os.path.isdir(words[-1]) else []
    line = json.dumps({"words": words, "seen": sorted(seen)}) + "\n"
    descriptor = os.open(PATH + ".calls", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def run(name, words):
    if name not in COMMANDS:
        raise LfsError(1, f"'{name}' is not a valid command")
    if name in STATE["fails"]:
        raise LfsError(STATE["fails"][name], "it\x1b[1m failed\n")
    COMMANDS[name](words)


def main(words):
    note(words)
    try:
        run(words[0], words[1:])
    except LfsError as error:
        print(f"lfs {words[0]}: {error}", file=sys.stderr)
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
