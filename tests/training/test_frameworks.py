"""The sampler and the loader under the frameworks that people train with, each the real one."""

from __future__ import annotations

import io
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dataprep
from dataprep.errors import UsageError
from dataprep.sealed.records import Records
from dataprep.training.sampler import Sampler
from tests.conftest import Made

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]

COUNT = 24  # of `tiny`


@pytest.fixture
def records(tiny: Made) -> Records:
    return dataprep.open(tiny.out)


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


def test_ranks_find_themselves_in_the_process_group(records: Records) -> None:
    pytest.importorskip("torch", reason="needs torch")
    import json

    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2"}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(records.out)],
            env={**os.environ, **group, "RANK": str(rank)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    told = [json.loads(process.communicate(timeout=120)[0]) for process in ranks]
    assert [(one[0], one[1], one[2]) for one in told] == [(0, 0, 2), (1, 1, 2)]
    together = np.stack([one[3] for one in told], axis=1).ravel()
    assert together.tolist() == order_of(records)
    assert told[0][4] == told[1][4]


def test_a_state_goes_through_torchs_own_files(records: Records) -> None:
    torch = pytest.importorskip("torch", reason="needs torch")
    file = io.BytesIO()
    torch.save(records.sampler(4, weights=[1] * COUNT).state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    records.sampler(5, weights=[1] * COUNT).load_state_dict(state)
