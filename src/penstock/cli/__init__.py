"""The command ``penstock``: one file for each verb."""
