"""The messages and stubs of the contract, generated from `proto/` by `run.sh generate`."""
