"""Benchmarks: one file in suites/ for each question, results as JSON in results/."""
