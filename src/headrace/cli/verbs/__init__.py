"""One module for each verb of the command: NAME, HELP, DESCRIPTION, EXAMPLES, add_arguments and run."""
