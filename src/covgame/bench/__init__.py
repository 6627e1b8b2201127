"""The benchmark: experiments as data, one tidy file of results, tables and figures from it."""
