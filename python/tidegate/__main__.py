"""
`python -m tidegate` is `tidegate`.
"""

from tidegate.cli import main

main()
