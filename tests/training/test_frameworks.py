"""The sampler and the loader under the frameworks that people train with, each the real one."""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import socket
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import dataprep
from dataprep.errors import UsageError
from dataprep.training.records import Records
from dataprep.training.sampler import Sampler
from tests.conftest import Made, nightly
from tests.docs.pages import DOCS

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

COUNT = 24  # of `tiny`


@pytest.fixture
def records(tiny: Made) -> Records:
    return dataprep.open(tiny.out)


HELD_OUT, TRAINED = 27, 26  # images, which neither a batch of four nor as many ranks divide


@pytest.fixture(scope="module")
def coloured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of one colour each, some of which a model takes for another class."""
    path = tmp_path_factory.mktemp("coloured")
    rng = np.random.default_rng(0)
    for split in ("train", "validation"):
        for label, name in enumerate(("red", "green", "blue")):
            (path / "raw" / split / name).mkdir(parents=True)
            for number in range(HELD_OUT // 3 - (split == "train" and name == "blue")):
                colour = rng.integers(0, 200, 3)
                colour[label] += 50
                image = np.full((16, 16, 3), colour, np.uint8)
                Image.fromarray(image).save(path / f"raw/{split}/{name}/{number}.png")
    dataprep.prepare("folder", raw=path / "raw", out=path / "out", workers=1)
    return path / "out"


def plainly(out: Path) -> int:
    """How many images have the most of their own colour, looked at one by one."""
    held_out = list(dataprep.open(out, "validation"))
    assert len(held_out) == HELD_OUT
    colours = [example.array().mean((0, 1)).argmax() for example in held_out]
    right = sum(int(it == one.class_index) for it, one in zip(colours, held_out, strict=True))
    assert 0 < right < HELD_OUT
    return right


def order_of(records: Records, epoch: int = 0) -> list[int]:
    sampler = records.sampler(1)
    sampler.set_epoch(epoch)
    return [number for batch in sampler for number in batch]


def rest_of(records: Records, state: dict[str, Any]) -> list[int]:
    """What a sampler of another size goes on with."""
    sampler = records.sampler(2)
    sampler.load_state_dict(state)
    return [number for batch in sampler for number in batch]


def numbers_of(records: Records, fields: dict[str, Any]) -> list[int]:
    return [records.number_of(key) for key in fields["key"]]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_data_loader_that_fetches_ahead(records: Records, workers: int) -> None:
    data = pytest.importorskip("torch.utils.data", reason="needs torch")
    dataset, sampler = records.to_torch(fields=["key", "position"]), records.sampler(4)
    options = {"num_workers": workers, "collate_fn": dataset.collate_fn}
    loader = data.DataLoader(dataset, batch_sampler=sampler, **options)
    seen = []
    for batch in sampler.track(loader):
        seen += numbers_of(records, batch[2])
        assert sampler.state_dict() == sampler.state_dict(after=batch)
        if len(seen) == 12:
            break
    assert seen == order_of(records)[:12]
    assert rest_of(records, sampler.state_dict()) == order_of(records)[12:]
    # A second epoch of the rest, and one of all.
    seen = [number for batch in sampler.track(loader) for number in numbers_of(records, batch[2])]
    assert seen == order_of(records)[12:]
    seen = [number for batch in sampler.track(loader) for number in numbers_of(records, batch[2])]
    assert seen == order_of(records, 1)
    for _ in loader:
        break
    with pytest.raises(UsageError, match="nobody has counted the batches"):
        sampler.state_dict()
    if workers:
        unordered = data.DataLoader(dataset, batch_sampler=sampler, in_order=False, **options)
        with pytest.raises(UsageError, match="in_order=False"):
            next(sampler.track(unordered))


def test_a_transform_can_seed_from_its_sample(records: Records) -> None:
    data = pytest.importorskip("torch.utils.data", reason="needs torch")
    dataset, sampler = records.to_torch(lambda picture: picture.info["sample"]), records.sampler(4)
    sampler.set_epoch(2)
    loader = data.DataLoader(dataset, batch_sampler=sampler, collate_fn=list, num_workers=2)
    told = [place for batch in loader for place, _ in batch]
    assert told == [(0, 2, position) for position in range(COUNT)]
    assert dataset[5][0] is None


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_data_loader(records: Records, workers: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")

    def loader() -> tuple[Sampler, Any]:
        dataset, sampler = records.to_torch(fields="key"), records.sampler(4)
        options = {"num_workers": workers, "collate_fn": dataset.collate_fn}
        return sampler, stateful.StatefulDataLoader(dataset, batch_sampler=sampler, **options)

    sampler, first = loader()
    for number, _ in enumerate(sampler.track(first), 1):
        if number == 2:
            break
    theirs, ours = first.state_dict(), sampler.state_dict()
    assert rest_of(records, ours) == order_of(records)[8:]
    sampler, second = loader()
    second.load_state_dict(theirs)
    seen = [number for batch in sampler.track(second) for number in numbers_of(records, batch[2])]
    assert seen == order_of(records)[8:]
    assert sampler.epoch == 1


def test_accelerate_which_fetches_one_ahead(records: Records) -> None:
    accelerate = pytest.importorskip("accelerate", reason="needs accelerate")
    data = pytest.importorskip("torch.utils.data")
    dataset, sampler = records.to_torch(fields=["key", "position"]), records.sampler(4)
    sampler.set_epoch(3)  # its own count begins at 0
    loader = data.DataLoader(dataset, batch_sampler=sampler, collate_fn=dataset.collate_fn)
    prepared = accelerate.Accelerator(cpu=True).prepare(loader)
    seen = []
    for batch in sampler.track(prepared):
        seen += numbers_of(records, batch[2])
        state = sampler.state_dict()
        assert state == sampler.state_dict(after=batch)
        rest = rest_of(records, state) if state["epoch"] == 3 else []
        assert seen + rest == order_of(records, 3)


@pytest.mark.filterwarnings(
    "ignore:.*(srun|many workers|tensorboard|logging interval|LeafSpec|is not empty).*"
)
@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.parametrize("kind", ["loader", "sampler"])
def test_lightning_keeps_the_state_in_its_checkpoints(
    records: Records, tmp_path: Path, kind: str
) -> None:
    lightning = pytest.importorskip("pytorch_lightning", reason="needs Lightning")
    import torch  # type: ignore[import-not-found,unused-ignore]

    known = {example.array().tobytes(): number for number, example in enumerate(records)}
    assert len(known) == COUNT

    class Model(lightning.LightningModule):  # type: ignore[misc,name-defined,unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.weight = torch.nn.Parameter(torch.zeros(1))
            self.seen: list[int] = []

        def training_step(self, batch: Any) -> Any:
            if kind == "loader":  # Lightning makes another tuple of a batch
                self.seen += [known[image.permute(1, 2, 0).numpy().tobytes()] for image in batch[0]]
            else:
                self.seen += numbers_of(records, batch[2])
            return self.weight.sum()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=1)

    def run(checkpoint: Path | None) -> list[int]:
        if kind == "loader":
            loader: Any = records.loader(4)
        else:
            dataset = records.to_torch(fields="key")
            loader = torch.utils.data.DataLoader(
                dataset, batch_sampler=records.sampler(4), collate_fn=dataset.collate_fn
            )
        model = Model()
        trainer = lightning.Trainer(
            max_epochs=2,
            accelerator="cpu",
            use_distributed_sampler=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
            default_root_dir=tmp_path,
            callbacks=lightning.callbacks.ModelCheckpoint(
                tmp_path, filename="{step}", every_n_train_steps=4, save_top_k=-1
            ),
        )
        trainer.fit(model, loader, ckpt_path=checkpoint, weights_only=False)
        return model.seen

    whole = order_of(records) + order_of(records, 1)
    assert run(None) == whole, "nothing is put in the sampler's place"
    if kind == "loader":
        for step in (4, 8):
            assert run(tmp_path / f"step={step}.ckpt") == whole[4 * step :]


@pytest.mark.filterwarnings("ignore:torch.distributed is disabled")
def test_a_distributed_checkpoint_holds_it(records: Records, tmp_path: Path) -> None:
    checkpoint = pytest.importorskip("torch.distributed.checkpoint", reason="needs torch")
    sampler = records.sampler(4)
    loop = sampler.track(sampler)
    next(loop)
    state = {"data": sampler.state_dict()}
    checkpoint.save(state, checkpoint_id=tmp_path / "saved", no_dist=True)
    other = records.sampler(3)
    loaded = {"data": other.state_dict()}
    checkpoint.load(loaded, checkpoint_id=tmp_path / "saved", no_dist=True)
    other.load_state_dict(loaded["data"])
    assert [number for batch in other for number in batch] == order_of(records)[4:22]


def test_grain_takes_the_same_order(records: Records) -> None:
    grain = pytest.importorskip("grain", reason="needs grain")
    sampler = records.sampler(4, rank=1, world_size=2)
    next(sampler.track(sampler))  # one batch is done
    source = records.to_grain(sampler)
    assert len(source) == 8
    assert [example.key for example in source[2:4]] == [source[2].key, source[3].key]
    assert source[-1].key == source[7].key
    loader = grain.MapDataset.source(source).map(lambda it: it.key).batch(4, batch_fn=list)
    seen = []
    for keys in sampler.track(loader.to_iter_dataset()):
        seen += [records.number_of(key) for key in keys]
        assert (sampler.epoch, sampler.consumed) == ((0, 16) if len(seen) == 4 else (1, 0))
    assert seen == order_of(records)[9::2]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world_size", [3, *nightly(1, 4)])
def test_grains_recipe_reads_every_record_once_an_epoch(
    coloured: Path, tmp_path: Path, workers: int, world_size: int
) -> None:
    pytest.importorskip("grain", reason="needs grain")
    pytest.importorskip("array_record", reason="needs array-record")
    dataprep.convert(coloured, to=tmp_path / "out", sink="arrayrecord", workers=1)
    page = (DOCS / "trainers.md").read_text("utf-8")
    (code,) = (it for it in re.findall(r"```python\n(.*?)```", page, re.S) if "ArrayRecordDa" in it)
    assert all(code.count(part) == 1 for part in ("[0::1]", '"out/', "num_workers=2"))
    epochs: tuple[list[bytes], list[bytes]] = [], []
    for rank in range(world_size):
        mine = code.replace("[0::1]", f"[{rank}::{world_size}].repeat(2)")
        mine = mine.replace("num_workers=2", f"num_workers={workers}")
        script = tmp_path / "script.py"
        script.write_text(mine.replace('"out/', f'"{tmp_path}/out/'), "utf-8")
        batches = list[Any]()
        told = {"train_step": lambda images, _, add=batches.append: add(images)}
        runpy.run_path(str(script), told, run_name="__main__")
        steps = [image.tobytes() for images in batches for image in images]
        half = len(steps) // 2
        epochs[0].extend(steps[:half])
        epochs[1].extend(steps[half:])
    assert epochs[0] != epochs[1], "another order in each epoch"
    assert [(len(seen), len(set(seen))) for seen in epochs] == [(TRAINED, TRAINED)] * 2


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("world_size", [3, *nightly(1, 4)])
def test_of_grains_source_all_ranks_read_every_example_in_each_pass(
    coloured: Path, workers: int, world_size: int
) -> None:
    grain = pytest.importorskip("grain", reason="needs grain")
    held_out = dataprep.open(coloured, "validation")
    for batch_size in (4,) if workers else (1, 4):
        ranks = [
            held_out.sampler(batch_size, rank=rank, world_size=world_size)
            for rank in range(world_size)
        ]
        for epoch in (1, 2):
            seen = list[int]()
            for sampler in ranks:
                source = grain.MapDataset.source(held_out.to_grain(sampler)).map(lambda it: it.key)
                batches = source.batch(batch_size, batch_fn=list).to_iter_dataset()
                if workers:
                    options = grain.MultiprocessingOptions(num_workers=workers)
                    batches = batches.mp_prefetch(options)
                for keys in sampler.track(batches):
                    seen += [held_out.number_of(key) for key in keys]
                assert (sampler.epoch, sampler.consumed) == (epoch, 0)
            assert sorted(seen) == list(range(HELD_OUT))


def test_tensorflow_takes_the_same_order(records: Records) -> None:
    tf = pytest.importorskip("tensorflow", reason="needs tensorflow")
    sampler = records.sampler(4)
    dataset = records.to_tf(sampler)
    assert dataset.element_spec[0] == tf.TensorSpec((None,), tf.string)
    seen: list[int] = []
    for encoded, labels in sampler.track(dataset):
        found = order_of(records)[len(seen) : len(seen) + 4]
        assert list(encoded.numpy()) == records.encoded(found)
        assert labels.numpy().tolist() == records.labels[found].tolist()
        seen += found
        if len(seen) == 12:
            break
    assert rest_of(records, sampler.state_dict()) == order_of(records)[12:]


RANK = """
import sys, json, torch.distributed as dist, dataprep

dist.init_process_group("gloo")
records = dataprep.open(sys.argv[1])
loader = records.loader(4, framework="numpy")
numbers = [number for batch in loader for number in batch.numbers]
state = loader.state_dict()
print(json.dumps([dist.get_rank(), loader.sampler.rank, loader.sampler.world_size, numbers, state]))
dist.destroy_process_group()
"""


def on_ranks(code: str, count: int, *words: object) -> list[Any]:
    """What each rank of a program says in its last line, as JSON."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(count)}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, *map(str, words)],
            env={**os.environ, **group, "RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(count)
    ]
    said = [process.communicate(timeout=300)[0] for process in ranks]
    assert not any(process.returncode for process in ranks)
    return [json.loads(text.splitlines()[-1]) for text in said]


def test_ranks_find_themselves_in_the_process_group(records: Records) -> None:
    pytest.importorskip("torch", reason="needs torch")
    told = on_ranks(RANK, 2, records.out)
    assert [(one[0], one[1], one[2]) for one in told] == [(0, 0, 2), (1, 1, 2)]
    together = np.stack([one[3] for one in told], axis=1).ravel()
    assert together.tolist() == order_of(records)
    assert told[0][4] == told[1][4]


# --- evaluation ---

ACCURACY = """
import sys, json, torch, dataprep

torch.set_num_threads(1)
torch.distributed.init_process_group("gloo")
held_out = dataprep.open(sys.argv[1], "validation")
loaders = [
    held_out.loader(4, size=16, transform=lambda images: images / 255),
    held_out.loader(1, size=16, transform=lambda images: images / 255),
    DataLoader(held_out.to_torch(pixels), batch_sampler=held_out.sampler(4)),
]
model = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
found = [accuracy(model, loader) for loader in loaders]
print(json.dumps([found, loaders[0].sampler.counts, [len(loader) for loader in loaders]]))
torch.distributed.destroy_process_group()
"""


@pytest.mark.parametrize(
    ("world_size", "counts"), [(1, [27]), *nightly((2, [14, 13])), (4, [7, 7, 7, 6])]
)
def test_the_guides_accuracy_is_that_of_a_plain_loop(
    coloured: Path, world_size: int, counts: list[int]
) -> None:
    pytest.importorskip("torch", reason="needs torch")
    guide = (DOCS / "trainers.md").read_text("utf-8")
    (code,) = (it for it in re.findall(r"```python\n(.*?)```", guide, re.S) if "accuracy" in it)
    code = code.partition("\nif __name__")[0] + ACCURACY
    told = on_ranks(code, world_size, coloured)
    for found, said, steps in told:
        assert found == pytest.approx([plainly(coloured) / HELD_OUT] * 3)
        assert said == counts
        assert steps[::2] == [-(-HELD_OUT // (4 * world_size))] * 2, "the same on all ranks"


LIGHTNING = """
import sys, json, pytorch_lightning as lightning, torch, dataprep
from pathlib import Path

out, place, devices, kind = sys.argv[1:]
train, held_out = (dataprep.open(out, split) for split in ("train", "validation"))
known = {example.array().tobytes(): number for number, example in enumerate(held_out)}

class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.trained, self.passes = 0, []

    def training_step(self, batch):
        self.trained += len(batch[1])
        return self.weight.sum()

    def on_validation_epoch_start(self):
        self.passes.append([])

    on_test_epoch_start = on_validation_epoch_start

    def validation_step(self, batch):
        pixels = batch[0].permute(0, 2, 3, 1).contiguous().numpy()
        self.passes[-1] += [known[image.tobytes()] for image in pixels]
        right = (batch[0].float().mean((2, 3)).argmax(1) == batch[1]).float().mean()
        self.log("right", right, sync_dist=True, batch_size=len(batch[1]))

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1)

def loader(records):
    if kind == "loader":
        return records.loader(4)
    dataset = records.to_torch()
    return torch.utils.data.DataLoader(
        dataset, batch_sampler=records.sampler(4), collate_fn=dataset.collate_fn
    )

if __name__ == "__main__":
    model = Model()
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=int(devices), use_distributed_sampler=False,
        enable_progress_bar=False, enable_model_summary=False, enable_checkpointing=False,
        logger=False,
    )
    # Made before the trainer starts the other process, and the group.
    trainer.fit(model, loader(train), loader(held_out))
    right = trainer.callback_metrics["right"].item()
    trainer.test(model, loader(held_out), verbose=False)
    said = json.dumps([model.trained, model.passes, right])
    Path(place, str(trainer.global_rank)).write_text(said)
"""


@pytest.mark.parametrize(
    ("devices", "kind"), [*nightly((1, "loader")), (2, "loader"), (2, "sampler")]
)
def test_lightning_validates_on_each_image_once(
    coloured: Path, tmp_path: Path, devices: int, kind: str
) -> None:
    pytest.importorskip("pytorch_lightning", reason="needs Lightning")
    script = tmp_path / "train.py"  # which Lightning starts once more for the other process
    script.write_text(LIGHTNING, "utf-8")
    (tmp_path / "told").mkdir()
    words = [script, coloured, tmp_path / "told", devices, kind]
    done = subprocess.run(
        [sys.executable, *map(str, words)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    told = [json.loads((tmp_path / "told" / str(rank)).read_text()) for rank in range(devices)]
    assert {one[0] for one in told} == {2 * (TRAINED // (4 * devices)) * 4}, "equal steps"
    passes = [sorted(chain(*of_ranks)) for of_ranks in zip(*(one[1] for one in told), strict=True)]
    sane = passes.pop(0)
    assert len(sane) == 8 * devices, "two batches of each, before the first epoch"
    assert passes == [list(range(HELD_OUT))] * 3
    if devices == 1:
        assert told[0][2] == pytest.approx(plainly(coloured) / HELD_OUT)


ACCELERATE = """
import sys, json, torch, dataprep
from accelerate import Accelerator

torch.set_num_threads(1)
held_out = dataprep.open(sys.argv[1], "validation")
loader = held_out.loader(4)
accelerator = Accelerator(cpu=True)
assert accelerator.prepare(loader) is loader
found = torch.zeros(2)
for images, labels in loader:
    right = images.float().mean((2, 3)).argmax(1) == labels
    found += torch.tensor([right.sum(), len(labels)])
print(json.dumps([loader.sampler.counts, accelerator.reduce(found, "sum").tolist()]))
torch.distributed.destroy_process_group()
"""


def test_accelerate_adds_up_what_each_process_found(coloured: Path) -> None:
    pytest.importorskip("accelerate", reason="needs accelerate")
    told = on_ranks(ACCELERATE, 2, coloured)
    assert told == [[[14, 13], [plainly(coloured), HELD_OUT]]] * 2


TRANSFORMERS = """
import sys, json, torch, dataprep
from transformers import Trainer, TrainingArguments

torch.set_num_threads(1)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(1))

    def forward(self, pixel_values, labels):
        found = self.weight * pixel_values.float().mean((2, 3))
        return {"loss": torch.nn.functional.cross_entropy(found, labels), "logits": found}

def collate(samples):
    images, labels = dataset.collate_fn(samples)
    return {"pixel_values": images, "labels": labels}

def metrics(prediction):
    right = (prediction.predictions.argmax(1) == prediction.label_ids).sum()
    return {"right": int(right), "seen": len(prediction.label_ids)}

dataset, held_out = (dataprep.open(sys.argv[1], it).to_torch() for it in ("train", "validation"))
options = TrainingArguments(
    sys.argv[2], num_train_epochs=1, per_device_train_batch_size=4, per_device_eval_batch_size=4,
    eval_strategy="epoch", save_strategy="no", report_to=[], use_cpu=True, disable_tqdm=True,
    learning_rate=0.0, remove_unused_columns=False,
)
trainer = Trainer(
    model=Model(), args=options, train_dataset=dataset, eval_dataset=held_out,
    data_collator=collate, compute_metrics=metrics,
)
trainer.train()
(found,) = [it for it in trainer.state.log_history if "eval_seen" in it]
print("\\n" + json.dumps([found["eval_right"], found["eval_seen"]]))
"""


@pytest.mark.parametrize("processes", [*nightly(1), 2])
def test_transformers_trains_and_evaluates_on_a_dataset(
    coloured: Path, tmp_path: Path, processes: int
) -> None:
    pytest.importorskip("transformers", reason="needs transformers")
    told = on_ranks(TRANSFORMERS, processes, coloured, tmp_path)
    assert told == [[plainly(coloured), HELD_OUT]] * processes


def test_ignite_takes_the_loaders(coloured: Path) -> None:
    engine = pytest.importorskip("ignite.engine", reason="needs ignite")
    metrics = pytest.importorskip("ignite.metrics")
    train, held_out = (dataprep.open(coloured, split) for split in ("train", "validation"))
    trained: list[int] = []
    trainer = engine.Engine(lambda _, batch: trained.append(len(batch[1])))
    evaluator = engine.Engine(lambda _, batch: (batch[0].float().mean((2, 3)), batch[1]))
    metrics.Accuracy().attach(evaluator, "accuracy")
    loader, found = held_out.loader(4), list[float]()

    @trainer.on(engine.Events.EPOCH_COMPLETED)  # type: ignore[misc,untyped-decorator,unused-ignore]
    def _(_: Any) -> None:
        found.append(evaluator.run(loader).metrics["accuracy"])

    trainer.run(train.loader(4), max_epochs=2)
    assert trained == [4] * 12
    assert found == pytest.approx([plainly(coloured) / HELD_OUT] * 2)


def test_a_state_goes_through_torchs_own_files(records: Records) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    file = io.BytesIO()
    torch.save(records.sampler(4, weights=[1] * COUNT).state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    records.sampler(5, weights=[1] * COUNT).load_state_dict(state)
