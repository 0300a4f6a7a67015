"""Tests that run in the environment of Hudi's Spark; tests/integration/hudi/test_on_hudi.py starts them there."""
