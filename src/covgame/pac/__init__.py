"""What is built on covering: visitations, reward-free exploration, the best policy."""
