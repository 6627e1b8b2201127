"""What covering costs: minimum flows, their certificates, and measures of coverage."""
