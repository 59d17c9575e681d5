"""The command ``headrace``: one file for each verb."""
