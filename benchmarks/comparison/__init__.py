"""The comparison with peers: experiments as data, one tidy file of results, tables and figures."""
