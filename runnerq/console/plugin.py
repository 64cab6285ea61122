"""``RunnerQPlugin``: a client, a worker and a console in a Litestar app."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from litestar import Litestar
from litestar.config.app import AppConfig
from litestar.di import Provide
from litestar.plugins import InitPlugin

from runnerq.client.client import Client
from runnerq.console.console import Console
from runnerq.errors import ConfigurationError
from runnerq.runtime.worker import Worker

DEPENDENCY = "runnerq"
PATH = "/runnerq"


class RunnerQPlugin(InitPlugin):
    """Gives a Litestar app runnerq: handlers that ask for ``runnerq: NamedDependency[Client]`` get the client, and
    ``worker``, if there is one, works as long as the app runs. ``console``, if there is one, is at ``path``.

        Litestar([...], plugins=[RunnerQPlugin(client, worker=Worker(client, workflows=[checkout]))])
        Litestar([...], plugins=[RunnerQPlugin(client, console=Console(client, auth=token_auth()))])

    The client is opened with the app, and closed with it, unless it is open already. ``litestar runnerq ...`` is the
    command line of ``runnerq``.
    """

    def __init__(
        self, client: Client, *, console: Console | None = None, path: str | None = None, worker: Worker | None = None
    ) -> None:
        if console is None and path is not None:
            raise ConfigurationError(
                f"path={path!r} is where the console is to be, and there is none: give "
                "console=Console(client, auth=token_auth()) as well"
            )
        if console is not None and console.client is not client:
            raise ConfigurationError("this console is of another client: give both the same one")
        self._client = client
        self._console = console
        self._path = PATH if path is None else path
        self._worker = worker

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Add the dependency, the console's routes if there is one, and the lifespan."""
        if DEPENDENCY in app_config.dependencies:
            raise ConfigurationError(
                f"the app has a dependency {DEPENDENCY!r} already: one of the two needs another name"
            )
        app_config.dependencies[DEPENDENCY] = Provide(self._given, use_cache=True)
        if self._console is not None:
            app_config.route_handlers.append(self._console.router(self._path))
        app_config.lifespan.append(self._lifespan)
        app_config.signature_types.append(Client)
        return app_config

    async def _given(self) -> Client:
        return self._client

    @asynccontextmanager
    async def _lifespan(self, _: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            if self._client.opened_on is None:
                await stack.enter_async_context(self._client)
            if self._console is not None:
                await stack.enter_async_context(self._console.lifespan())
            if self._worker is not None:
                await stack.enter_async_context(self._worker)
            yield
