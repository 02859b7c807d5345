"""One file a resource: paths and parameters in, a verb of `control` called, its answer out."""
