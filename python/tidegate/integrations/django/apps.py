"""
What `INSTALLED_APPS` names. It brings the system checks, and nothing else.
"""

from django.apps import AppConfig
from django.core.checks import register


class TidegateConfig(AppConfig):
    """
    The app `tidegate.integrations.django`.
    """

    name = "tidegate.integrations.django"
    label = "tidegate"
    verbose_name = "Tidegate"

    def ready(self) -> None:
        """
        Registers the checks.
        """
        from tidegate.integrations.django._checks import check_settings  # noqa: PLC0415  # as Django asks for it

        register(check_settings, "tidegate")
