"""The options of ``dataprep stage``."""

from __future__ import annotations

import click

from dataprep.api.parameters import ByteSize, GivenPath, options

_LEAST_BANDWIDTH = 100_000  # below, a forgotten unit is likelier than the wish

_what = options(
    click.option(
        "--split",
        multiple=True,
        metavar="NAME",
        help="Only this split. May be repeated. [default: all]",
    ),
    click.option(
        "--share",
        type=click.Choice(["node"]),
        help="node: each node gets a part of the shards; node loads differ by at most one shard. "
        "[default: every node gets all]",
    ),
    click.option(
        "--replicas",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        metavar="K",
        help="--share: give each shard to K nodes.",
    ),
    click.option(
        "--whole",
        multiple=True,
        metavar="SPLIT",
        help="--share: a split that every node gets whole all the same. May be repeated.",
    ),
)

_where = options(
    click.option(
        "--to",
        type=GivenPath(file_okay=False),
        metavar="DIR",
        help="The files go directly into DIR. [default: a directory of this job in "
        "$DATAPREP_SCRATCH, $SLURM_TMPDIR, $LOCAL_SCRATCH, $PBS_JOBFS, /mnt/bb/$USER, $TMPDIR, "
        "/local/scratch or /tmp, the first that there is]",
    ),
    click.option(
        "--shared",
        is_flag=True,
        help="Several jobs of yours on a node use one copy; give it in all of them.",
    ),
    click.option(
        "--print_dir",
        is_flag=True,
        help="Print nothing on stdout but where the copy is: DATA_DIR=$(dataprep stage "
        "--print_dir …) || exit; export DATA_DIR. Every process prints it: under srun, pipe the "
        "lines through sort -u.",
    ),
)

_how = options(
    click.option(
        "--verify",
        type=click.Choice(["none", "copy", "reread"]),
        default="copy",
        show_default=True,
        help="none: sizes. copy: hash what is read, and compare it with the manifest. reread: "
        "and read the copy back from the node's storage.",
    ),
    click.option(
        "--streams",
        type=click.IntRange(min=1, max=64),
        metavar="N",
        help="Files to copy at the same time on a node. [default: as many as the cores, 2 to 8; 8 "
        "with --broadcast]",
    ),
    click.option(
        "--bandwidth",
        type=ByteSize(least=_LEAST_BANDWIDTH),
        metavar="SIZE",
        help="A node reads at most so much a second, e.g. 500MB. [default: no bound]",
    ),
    click.option(
        "--broadcast",
        type=click.Choice(["mpi"]),
        help="mpi: read every byte once and send it to all nodes; needs the extra mpi, and "
        "mpirun or srun --mpi.",
    ),
)

_who = options(
    click.option(
        "--rank",
        type=click.IntRange(min=0),
        metavar="N",
        help="This node's number, from 0, where no scheduler or MPI tells, such as under pdsh.",
    ),
    click.option(
        "--world_size", type=click.IntRange(min=1), metavar="N", help="How many nodes there are."
    ),
    click.option(
        "--rendezvous",
        metavar="HOST:PORT",
        help="Where the nodes tell each other that all have room and all are done; HOST is node "
        "0. none: they do not. [default: the job's first node, if the scheduler names it]",
    ),
    click.option(
        "--rendezvous_seconds",
        type=click.FloatRange(min=1),
        default=300,
        show_default=True,
        metavar="SECONDS",
        help="How long nodes wait for each other before anything is copied.",
    ),
    click.option(
        "--patience",
        type=click.FloatRange(min=1),
        default=600,
        show_default=True,
        metavar="SECONDS",
        help="How long processes of a node wait for one that copies but makes no progress.",
    ),
)

_command = options(
    click.option(
        "--keep",
        is_flag=True,
        help="With COMMAND: a job that is stopped leaves its copies, for its requeue to find.",
    ),
    # How `dataprep stage SRC -- COMMAND` starts itself on every node.
    click.option("--launched", type=click.Choice(["copy", "clean"]), hidden=True),
)

_instead = options(
    click.option(
        "--status",
        is_flag=True,
        help="Instead: tell what is there. Exit code 1 if it is not a whole, unchanged copy.",
    ),
    click.option("--json", is_flag=True, help="--status: print it as JSON."),
    click.option(
        "--clean", is_flag=True, help="Instead: delete what this job staged, and nothing else."
    ),
    click.option("--all_jobs", is_flag=True, help="--clean: even if other jobs staged or use it."),
)

stage_options = options(_what, _where, _how, _who, _command, _instead)
