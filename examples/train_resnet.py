"""Train a ResNet on a set that dataprep made; stopped anywhere, the same command goes on exactly.

On one node:        torchrun --nproc_per_node=8 train_resnet.py OUT --checkpoint last.pt
In a batch script:  dataprep stage OUT -- srun python train_resnet.py --checkpoint last.pt

A checkpoint is model, optimizer and how many samples were consumed, for any number of ranks: see
docs/training.md. SIGUSR1 and SIGTERM, which a batch system sends to every rank before the time is
up, write one and end the program with code 75 (torchrun, which passes on SIGTERM alone, with 1).
"""

import argparse
import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

import dataprep

STOPPED = 75  # EX_TEMPFAIL: try again
LISTEN = 10  # steps between two looks at the signals: each waits for the GPU


def convolution(before: int, after: int, kernel: int, stride: int) -> list[nn.Module]:
    """Without a bias: the normalization has one."""
    layer = nn.Conv2d(before, after, kernel, stride, kernel // 2, bias=False)
    return [layer, nn.BatchNorm2d(after)]


class Bottleneck(nn.Module):
    """Three convolutions around few channels, beside a shortcut."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        out = 4 * width
        layers = [*convolution(channels, width, 1, 1), nn.ReLU(inplace=True)]
        layers += [*convolution(width, width, 3, stride), nn.ReLU(inplace=True)]
        self.body = nn.Sequential(*layers, *convolution(width, out, 1, 1))
        other = stride > 1 or channels != out
        self.skip = nn.Sequential(*convolution(channels, out, 1, stride) if other else ())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Of the same height and width, or half of them."""
        return functional.relu(self.body(x) + self.skip(x))


def resnet(depth: int, channels: int, classes: int) -> nn.Module:
    """A ResNet (He et al., 2015; with the strides in the 3x3 layers, as torchvision has them)."""
    layers = [*convolution(channels, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for stage, count in enumerate({26: (2, 2, 2, 2), 50: (3, 4, 6, 3)}[depth]):
        for number in range(count):
            layers.append(Bottleneck(channels, 64 << stage, 2 if stage and not number else 1))
            channels = 256 << stage
    layers += [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*layers)


def main() -> int:  # noqa: D103
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    staged = os.environ.get("DATA_DIR")  # of dataprep stage
    parser.add_argument("data", nargs="?" if staged else None, default=staged, type=Path)
    parser.add_argument("--split", default="train")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--every", type=int, default=500, help="steps between checkpoints")
    parser.add_argument("--epochs", type=int, default=90)
    parser.add_argument("--batch_size", type=int, default=256, help="of a rank")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--depth", type=int, choices=(26, 50), default=50)
    parser.add_argument("--lr", type=float, default=0.1, help="for 256 samples a step")
    parser.add_argument("--log_keys", type=Path, help="append what each rank saw in each step")
    options = parser.parse_args()
    stop = list[int]()
    for name in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(name, lambda number, _: stop.append(number))  # ranks must leave together

    told = os.environ.get  # torchrun's names, else srun's
    rank = int(told("RANK") or told("SLURM_PROCID", "0"))
    world_size = int(told("WORLD_SIZE") or told("SLURM_NTASKS", "1"))
    local = int(told("LOCAL_RANK") or told("SLURM_LOCALID", "0"))
    cuda = torch.cuda.is_available()
    device = torch.device("cuda", local) if cuda else torch.device("cpu")
    if cuda:
        torch.cuda.set_device(device)
    store = {"store": dist.HashStore()} if world_size == 1 else {}  # others meet at MASTER_ADDR
    dist.init_process_group("nccl" if cuda else "gloo", rank=rank, world_size=world_size, **store)

    records = dataprep.open(options.data, options.split)
    loader = records.loader(options.batch_size, size=options.size, crop="random", flip=True)
    torch.manual_seed(0)
    model = resnet(options.depth, records.info.channels, len(records.classes))
    model = model.to(device, memory_format=torch.channels_last)
    rate = options.lr * options.batch_size * world_size / 256
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, weight_decay=5e-5)
    step = 0
    if options.checkpoint.exists():
        state = torch.load(options.checkpoint, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        optimizer.param_groups[0]["lr"] = rate  # of as many ranks as there are now
        loader.load_state_dict(state["data"])
        step = state["step"]
    parallel = DistributedDataParallel(model, device_ids=[local] if cuda else None)

    def save() -> None:
        """Whole or not at all: killed meanwhile, the last checkpoint is still there."""
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
        state |= {"data": loader.state_dict(), "step": step}
        if rank == 0:  # the state of the data is the same on every rank
            partial = options.checkpoint.with_name(options.checkpoint.name + ".partial")
            with partial.open("wb") as file:
                torch.save(state, file)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(options.checkpoint)
            print(f"step {step}: loss {loss.item():.3f}", flush=True)  # noqa: T201 - its voice

    while loader.sampler.epoch < options.epochs:
        for batch in loader:
            images, labels = (part.to(device, non_blocking=True) for part in batch)
            with torch.autocast("cuda", torch.bfloat16) if cuda else nullcontext():
                loss = functional.cross_entropy(parallel((images - 128.0) / 64), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            if options.log_keys:
                with options.log_keys.open("a") as file:
                    keys = [records[number].key for number in batch.numbers]
                    print(step, rank, world_size, *keys, file=file, flush=True)
            if step % options.every == 0:
                save()
            if step % LISTEN == 0:
                signals = torch.tensor(len(stop), device=device)
                dist.all_reduce(signals)  # one rank's signal is everybody's
                if signals.item():
                    save()
                    return STOPPED
        save()
    return 0


if __name__ == "__main__":
    sys.exit(main())
