"""What catalogues read of a data set: ``croissant.json``, and the front matter of ``README.md``.

Croissant 1.1 is MLCommons' description of data sets in JSON-LD
(https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html): every shard is a FileObject
with its SHA-256, and ``records.parquet`` is the RecordSet. The Responsible AI vocabulary
(http://mlcommons.org/croissant/RAI/1.0) is for what only people know.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from dataprep.errors import UsageError
from dataprep.formats.webdataset.sample import hub_features
from dataprep.plugins import dataset_class
from dataprep.system.messages import printable
from dataprep.tables.records import NAME as RECORDS_NAME
from dataprep_schemas.fields import CAPTIONS, MEANINGS, Fields
from dataprep_schemas.manifest import File, Manifest, RecordsFile
from dataprep_schemas.tables import RECORDS

CROISSANT: Final = "croissant.json"
README: Final = "README.md"

# Of the Responsible AI vocabulary; all but the last are what NeurIPS asks for.
RAI: Final = (
    *("dataLimitations", "dataBiases", "personalSensitiveInformation"),
    *("dataUseCases", "dataSocialImpact", "hasSyntheticData", "dataCollection"),
)

# The recommended context of the specification, appendix 1.
_TERMS: Final = (
    *("arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "extract", "field"),
    *("fileProperty", "fileObject", "fileSet", "format", "includes", "isArray", "isLiveDataset"),
    *("jsonPath", "key", "md5", "parentField", "path", "recordSet", "references", "regex"),
    *("repeated", "replace", "samplingRate", "separator", "source", "subField", "transform"),
)
_CONTEXT: Final[Mapping[str, Any]] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "prov": "http://www.w3.org/ns/prov#",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "name": {"@container": "@language"},
    "description": {"@container": "@language"},
    "data": {"@id": "cr:data", "@type": "@json"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    **{term: f"cr:{term}" for term in _TERMS},
}
_TYPES: Final = {"string": "sc:Text", "float": "sc:Float"}  # all others are whole numbers
_SHAPES: Final = ("", "-1", "-1,4")  # of lists of lists, all are boxes
_KINDS: Final = {
    ".tar": "application/x-tar",
    ".h5": "application/x-hdf5",
    ".parquet": "application/x-parquet",
    ".json": "application/json",
}
# https://huggingface.co/docs/hub/repositories-licenses, those that data sets have.
_HUB_LICENSES: Final = (
    r"apache-2\.0|mit|bsd-3-clause|gpl-3\.0|cc0-1\.0|cc-by-(2\.0|2\.5|3\.0|4\.0)"
    r"|cc-by-sa-(3\.0|4\.0)|cc-by-nc-(2\.0|3\.0|4\.0)|cc-by-nd-4\.0|cc-by-nc-nd-(3\.0|4\.0)"
    r"|cc-by-nc-sa-(2\.0|3\.0|4\.0)|cdla-permissive-[12]\.0|cdla-sharing-1\.0|odbl|odc-by|pddl"
)
_BINARY: Final = "application/octet-stream"
# Of the hub: fewer than 1,000 records, and each ten times as many as the one before.
_SIZES: Final = (
    *("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M"),
    *("100M<n<1B", "n>1B"),
)


@dataclass(frozen=True, slots=True)
class Card:
    """What only people know of a data set; texts may be empty."""

    name: str
    description: str
    license: str  # an address, or an SPDX identifier
    creator: str
    url: str  # its home page
    date: str  # of its publication, ``YYYY-MM-DD``
    cite_as: str  # BibTeX
    version: str
    raw: str  # the home page of the raw data, where the data set knows it
    responsible: Mapping[str, str | bool]  # by names of `RAI`; ``hasSyntheticData`` is no text


_NEEDED: Final = ("name", "description", "license", "creator")
_OPTIONS: Final = (*_NEEDED, "url", "date")


def full_card(
    dataset: str, given: Mapping[str, str], responsible: Mapping[str, str | bool]
) -> Card:
    """A card of what was given, and of what the data set knows of itself.

    Raises:
        UsageError: names the options to add.
    """
    try:
        known = dataset_class(dataset).card
    except UsageError:  # of a plugin that is not installed here
        known = {}
    fields = dict.fromkeys((*_OPTIONS, "cite_as"), "") | {"version": "1.0.0"} | {**known, **given}
    unknown = sorted(set(fields) - {*_OPTIONS, "cite_as", "version"})
    if unknown:
        raise UsageError(f"a card has no {unknown[0]!r}; expected some of {', '.join(_OPTIONS)}")
    card = Card(**fields, raw=known.get("url", ""), responsible=responsible)
    missing = [f"--{name}" for name in _NEEDED if not getattr(card, name)]
    if missing:
        raise UsageError(f"a card needs {', '.join(missing)}; catalogues refuse one without")
    try:
        if card.date:
            datetime.date.fromisoformat(card.date)
    except ValueError as error:
        raise UsageError(f"--date {card.date!r}: expected YYYY-MM-DD; {error}") from error
    for name, value in responsible.items():
        if name not in RAI:
            raise UsageError(f"--rai has {name!r}; expected some of {', '.join(RAI)}")
        wanted = "true or false" if name == "hasSyntheticData" else "a text"
        if isinstance(value, bool) != (wanted == "true or false"):
            raise UsageError(f"--rai has {name} = {value!r}; expected {wanted}")
    return card


def unsaid(card: Card) -> tuple[list[str], list[str]]:
    """What nobody has said: options for catalogues, and names of the Responsible AI vocabulary.

    NeurIPS asks for those: https://neurips.cc/Conferences/2026/EvaluationsDatasetsHosting
    """
    options = [f"--{name}" for name in _OPTIONS if not getattr(card, name)]
    return options, [name for name in RAI[:-1] if name not in card.responsible]


def croissant(card: Card, manifest: Manifest, fields: Fields) -> str:
    """The data set in JSON-LD."""
    table = manifest.records_table
    columns = {name: kind for name, (kind, _) in RECORDS.items()}
    columns |= {field.name: field.rules.column for field in fields}
    meanings = {name: meaning for name, (_, meaning) in RECORDS.items()}
    meanings |= {field.name: meaning for field, meaning in MEANINGS.items()}
    shards = [
        (name, file)
        for name, split in manifest.splits.items()
        for shard in split.shards
        for file in shard.files
    ]
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.1",
        "name": card.name,
        "description": card.description,
        "license": card.license,
        **({"url": card.url} if card.url else {}),
        "creator": {"@type": "sc:Organization", "name": card.creator},
        **({"datePublished": card.date} if card.date else {}),
        "version": card.version,
        **({"citeAs": card.cite_as} if card.cite_as else {}),
        **{f"rai:{name}": card.responsible[name] for name in RAI if name in card.responsible},
        **({"prov:wasDerivedFrom": card.raw} if card.raw else {}),
        "prov:wasGeneratedBy": f"dataprep with {versions}; its manifest.json has the SHA-256 "
        f"{manifest.sha256}",
        "distribution": [
            _file(table, "every image that was found"),
            *(_file(file, f"a shard of {split}") for split, file in shards),
        ],
        "recordSet": [
            {
                "@type": "cr:RecordSet",
                "@id": "records",
                "name": "records",
                "description": "A row for every image that was found in the raw data.",
                "key": [{"@id": "records/split"}, {"@id": "records/key"}],
                "field": [
                    _field(name, kind, meanings.get(name, "as in the raw data"))
                    for name, kind in columns.items()
                ],
            }
        ],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _file(file: File | RecordsFile, what: str) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.path,
        "name": file.path,
        "description": what,
        "contentUrl": file.path,
        "contentSize": f"{file.bytes} B",
        "encodingFormat": _KINDS.get(PurePosixPath(file.path).suffix, _BINARY),
        "sha256": file.sha256,
    }


def _field(name: str, kind: str, meaning: str) -> dict[str, Any]:
    depth = kind.count("list<")
    single = kind.replace("list<", "").rstrip(">")
    return {
        "@type": "cr:Field",
        "@id": f"records/{name}",
        "name": name,
        "description": meaning,
        "dataType": _TYPES.get(single, "sc:Integer"),
        **({"isArray": True, "arrayShape": _SHAPES[depth]} if depth else {}),
        "source": {"fileObject": {"@id": RECORDS_NAME}, "extract": {"column": name}},
    }


def readme(card: Card, manifest: Manifest, formats: Collection[str]) -> str:
    """A page with the front matter that the Hugging Face hub reads.

    Args:
        formats: of the images that are stored.

    Its fields are JSON, which YAML contains, so that no text needs quoting rules of its own.
    """
    records = manifest.totals.records
    several = "label" if manifest.examples.multilabel else "class"
    tasks = ["image-classification", *["image-to-text"] * (CAPTIONS in manifest.examples.fields)]
    front: dict[str, Any] = {
        "pretty_name": card.name,
        **_license(card),
        "task_categories": tasks,
        "task_ids": [f"multi-{several}-image-classification"],
        "size_categories": [_SIZES[min(max(len(str(records)) - 3, 0), len(_SIZES) - 1)]],
    }
    if manifest.sink.name == "webdataset":  # of Parquet, the files tell
        front["dataset_info"] = {"features": hub_features(manifest.examples, formats)}
    fields = "\n".join(f"{name}: {json.dumps(value)}" for name, value in front.items())
    published = f"Published: {card.date}, version" if card.date else "Version"
    facts = [f"- Home page: {card.url}"] if card.url else []
    facts += [f"- Made by: {card.creator}", f"- License: {card.license}"]
    splits = [
        f"| {_cell(name)} | {split.records:,} | {len(split.shards):,} |"
        for name, split in manifest.splits.items()
    ]
    paragraphs = [
        f"---\n{fields}\n---",
        f"# {card.name}",
        card.description,
        "\n".join([*facts, f"- {published} {card.version}"]),
        "\n".join(["| split | records | shards |", "| --- | ---: | ---: |", *splits]),
        f"{len(manifest.classes):,} classes. Every image, with its split, labels and hash, is a "
        f"row of `{RECORDS_NAME}`; `{CROISSANT}` describes all files.",
    ]
    for name in RAI:
        if name in card.responsible:
            paragraphs += [f"## {name}", str(card.responsible[name])]
    if card.cite_as:
        paragraphs += ["## Citation", f"```bibtex\n{card.cite_as}\n```"]
    return "\n\n".join(paragraphs) + "\n"


def _cell(text: str) -> str:
    """A text as it is, in a table in Markdown."""
    return re.sub(r"([\\`*\[\]<>&|])", r"\\\1", printable(text))


def _license(card: Card) -> dict[str, str]:
    """As the hub has it: an identifier that it knows, or a name and an address."""
    known = _known_license(card.license)
    if known is not None:
        return {"license": known}
    by_address = card.license.startswith(("http://", "https://"))
    name = f"{card.name} license" if by_address else card.license
    link = card.license if by_address else card.url
    return {
        "license": "other",
        "license_name": re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-") or "other",
        **({"license_link": link} if link else {}),
    }


def _known_license(text: str) -> str | None:
    commons = re.match(r"https?://creativecommons\.org/licenses/([a-z-]+)/(\d\.\d)", text)
    if commons is not None:
        text = f"cc-{commons[1]}-{commons[2]}"
    elif re.match(r"https?://creativecommons\.org/publicdomain/zero/1\.0", text):
        text = "cc0-1.0"
    name = text.lower()
    return name if re.fullmatch(_HUB_LICENSES, name) else None
