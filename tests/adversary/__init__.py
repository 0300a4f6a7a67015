"""Random schemas, statements and steps through a real pipeline, compared by code that shares nothing with the product."""
