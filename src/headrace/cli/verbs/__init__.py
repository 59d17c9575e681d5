"""One module for each verb of the command: HELP, DESCRIPTION, EXAMPLES, add_arguments and run."""
