"""The peers: other people's methods, one file each, on the same counts and kernels as ours."""
