"""A second simulation of training jobs, written without sight of the first or of the rules of the diagnosis.

`streams` solves what runs when, `fabric` says how long a transfer takes, the workloads (`data_parallel`, `megatron`,
`mixture`) say what a step consists of, `plugin` what Inspector keeps of it, `truth` what the log allows to be said, and
`judging` what was said. `kinds` draws a job from a seed.
"""
