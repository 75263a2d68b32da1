"""From the parallel file system to every node's own storage, checked.

::

    inventory ─▶ selection ─▶ directory, lock ─▶ space, agreed ─▶ copy or broadcast ─▶ sentinel
    what there    what this    safe, and one      on every node     hash on the way,     last, with
    is, hashed    node gets    copier a node      before a byte     fsync, rename        the digest

Staging knows manifests, not pipelines: it works on any finished data set, and on plain directories.
"""
