"""
The control plane: rules, quotas, usage, audit and who may change them. It never takes part in a decision.
"""
