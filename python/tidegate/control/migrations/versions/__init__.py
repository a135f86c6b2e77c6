"""
One step a file. What has been released is never changed.
"""
