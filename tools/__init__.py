"""What turns the repository into something to read and to install: site, notebook, release."""
