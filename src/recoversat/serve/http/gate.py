"""What happens around every request: headers, figures, a line in the log, and errors as JSON."""

import time

from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from recoversat.serve.http.refusals import RefusalError, shutting_down, too_busy
from recoversat.serve.process.logs import log, log_error
from recoversat.serve.service import Service

_INFORMATION = ("/languages", "/models", "/frontend/settings", "/health", "/livez", "/readyz", "/metrics")
PATHS = frozenset({"/", "/spec", "/docs", "/translate", "/translate_file", "/detect", "/suggest", *_INFORMATION})
_PROBES = ("/livez", "/metrics")  # are answered however many requests there are
_HEADERS = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET, HEAD, POST, OPTIONS"),
    (b"access-control-allow-headers", b"Authorization, Content-Type"),
    (b"access-control-expose-headers", b"Retry-After"),
    (b"access-control-max-age", b"1728000"),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
]


class Gate:
    """The outermost layer of the app."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service
        self._running, self._most = 0, 2 * service.settings.queue_size

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request and account for it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope.setdefault("state", {})["note"] = ""
        start, status = time.perf_counter(), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), *_HEADERS]
                if self._service.draining and (b"connection", b"close") not in message["headers"]:
                    message["headers"].append((b"connection", b"close"))
            await send(message)

        metrics = self._service.metrics
        metrics.running.inc()
        self._running += 1
        try:
            await self._answer(scope, receive, send_on)
        finally:
            seconds = time.perf_counter() - start
            path = scope["path"] if scope["path"] in PATHS else "other"
            metrics.running.dec()
            self._running -= 1
            metrics.requests.labels(path, str(status)).inc()
            metrics.latency.labels(path).observe(seconds)
            # Neither the query string nor the path of the unknown: people's text may stand in both.
            log.info("%s %s %d %.0f ms%s", scope["method"], path, status, 1000 * seconds, scope["state"]["note"])

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] == "OPTIONS":
            await Response(status_code=204)(scope, receive, send)
        elif self._service.draining:
            await refused(shutting_down())(scope, receive, send)
        elif self._running > self._most and scope["path"] not in _PROBES:
            # before the body is read: a crowd must not fill the memory
            await refused(too_busy(1))(scope, receive, send)
        else:
            # HEAD is GET whose answer has no body: uvicorn leaves it out.
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            try:
                await self._app({**scope, "method": method}, receive, send)
            except Exception as error:  # answered with 500 by now; not raised again, or uvicorn would log the text
                log_error(error, self._service.settings.log_text)


def refused(refusal: RefusalError) -> Response:
    """Write a refusal in LibreTranslate's shape."""
    headers = {} if refusal.retry_after is None else {"retry-after": str(refusal.retry_after)}
    if refusal.status == 503:
        headers["connection"] = "close"  # the next try may find a worker that is less busy
    return JSONResponse({"error": refusal.message}, refusal.status, headers)
