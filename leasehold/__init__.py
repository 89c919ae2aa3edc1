"""What people import and type: the generated contracts, the command line, the local launcher."""
