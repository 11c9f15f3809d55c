"""What training is against: the benchmarks of nccl-tests."""
