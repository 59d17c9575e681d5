"""What is measured beside headrace, each in a process of its own."""
