"""
The client of a running service, as `tidegate.Client`.
"""

from tidegate.client.client import Client
from tidegate.client.decision import RemoteDecision, RemoteQuotaStatus
from tidegate.client.options import ClientOptions

__all__ = ["Client", "ClientOptions", "RemoteDecision", "RemoteQuotaStatus"]
