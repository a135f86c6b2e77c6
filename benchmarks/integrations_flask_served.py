"""
Serves one of the applications of `integrations_flask` by gunicorn with one worker process, which keeps connections in threads.

    python integrations_flask_served.py PORT SUBJECT [STORE]
"""

import sys
from wsgiref.types import WSGIApplication

import integrations_flask as flask_apps
from gunicorn.app.base import BaseApplication

THREADS = 4


class Served(BaseApplication):
    """An application of gunicorn that is made in its worker."""

    def __init__(self, port: int, name: str, store: str | None) -> None:
        self._port, self._name, self._store = port, name, store
        super().__init__()

    def load_config(self) -> None:
        """Sets what the command line of gunicorn would."""
        settings = {"bind": f"127.0.0.1:{self._port}", "worker_class": "gthread", "threads": THREADS, "control_socket_disable": True}
        for setting, value in settings.items():
            self.cfg.set(setting, value)

    def load(self) -> WSGIApplication:
        """Return the application."""
        return next(subject for subject in flask_apps.SUBJECTS if subject.name == self._name).make(self._store)


if __name__ == "__main__":
    Served(int(sys.argv[1]), sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else None).run()
