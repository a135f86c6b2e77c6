"""
The API of the control plane: one module for each group of routes.
"""
