"""From finished data sets to batches: the order of an epoch, resumed exactly; loaders."""
