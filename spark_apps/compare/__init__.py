"""Comparing every row of both sides while both keep changing."""
