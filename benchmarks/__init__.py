"""Benchmarks: ratios measured side by side in one run, written to benchmarks/results/."""
