"""
The dashboard: pages about what the limiter does and who may change it, served by the control plane.

Pages are made in Python, with charts as SVG; one script keeps parts of them current, and nothing needs it. One module per page.
"""
