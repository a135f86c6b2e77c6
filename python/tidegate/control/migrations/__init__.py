"""
The steps from empty tables to those of today, as Alembic takes them. See `tidegate.control.migrate`.
"""
