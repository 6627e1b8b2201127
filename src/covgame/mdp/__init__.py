"""What a tabular world is: sparse kernels, dynamic programming, models, families, files."""
