"""What is measured beside penstock, each in a process of its own."""
