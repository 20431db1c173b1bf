"""The viewer as an ASGI application: a page, read-only data, and lesions. Needs starlette."""

import asyncio
import json
from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nacre.inspect.recording.arrays import summary
from nacre.inspect.recording.recording import Recording
from nacre.inspect.viewer.lesions import LesionQueue, TooManyRequests, read_lesions
from nacre.inspect.viewer.query import MOST_STEPS, BadRequest, Query
from nacre.inspect.viewer.request_checks import LARGEST_BODY, RequestChecker
from nacre.inspect.viewer.source import ViewerSource, plain

SCRIPTS = ("theme.js", "source.js", "chart.js", "circuit.js", "view.js", "save.js", "main.js")
_BODY_TIMEOUT = 10.0  # seconds
_ANSWERS = 32  # outputs of a lesioned model in an answer: more than a chart shows, for the table beside it
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def page_file(name: str) -> str:
    """Text of a file of the page."""
    return files("nacre.inspect.viewer").joinpath("page", name).read_text(encoding="utf-8")


def make_app(recordings: Sequence[Recording], hosts: tuple[str, ...] = ()) -> RequestChecker:
    """The viewer of one recording, or of two to compare. `hosts` are names that a Host header may have.

    Example:
        >>> recording = nacre.inspect.record(NAC(8, 2), torch.randn(1, 20, 8), out=tmp / "seen")
        >>> app = make_app([recording])  # for uvicorn, or any server of ASGI applications
    """
    sources = [ViewerSource(recording) for recording in recordings]
    lesions = LesionQueue()
    # All files that can be fetched are in memory by name: no path is ever made from a request.
    names = {f"/page/{name}": name for name in ("style.css", *SCRIPTS)} | {"/": "index.html"}
    pages = {path: (page_file(name), _TYPES[name.rpartition(".")[2]]) for path, name in names.items()}

    def page(request: Request) -> Response:
        text, kind = pages[request.scope["route"].path]
        return Response(text, media_type=kind)  # of which starlette says that it is UTF-8

    def about(request: Request) -> Response:
        return JSONResponse({"runs": [source.about() for source in sources]})

    def answer(tell: Callable[[Query], Any]) -> Callable[[Request], Response]:
        """An endpoint that checks the parameters and answers in JSON; it runs in a thread."""

        def endpoint(request: Request) -> Response:
            return JSONResponse(tell(Query.read(sources, request.query_params.multi_items())))

        return endpoint

    def frame(request: Request) -> Response:
        q = Query.read(sources, request.query_params.multi_items())
        if not q.source.recording.has_frames:
            raise BadRequest("this recording has no frames")
        step = q.number("step", 0, q.source.recording.length("x", q.sample) - 1)
        return Response(q.source.frame(q.sample, step), media_type="image/png")

    async def lesion(request: Request) -> Response:
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "lesions come as application/json")
        q = Query.read(sources, request.query_params.multi_items())
        try:
            data = json.loads(await asyncio.wait_for(_body(request), _BODY_TIMEOUT))
        except (ValueError, RecursionError):
            raise BadRequest("lesions are not JSON") from None
        except (ClientDisconnect, TimeoutError):
            raise HTTPException(408, "the lesions never came to their end") from None
        wanted = read_lesions(data, q.source.recording.layers[q.layer])
        return JSONResponse(await run_in_threadpool(_lesioned, lesions, q, wanted))

    routes = [Route(path, page, methods=["GET"]) for path in pages]
    routes += [Route("/api/about", about, methods=["GET"]), Route("/api/frame", frame, methods=["GET"])]
    routes += [Route(f"/api/{name}", answer(tell), methods=["GET"]) for name, tell in _READS.items()]
    routes.append(Route("/api/lesion", lesion, methods=["POST"]))
    refused = (BadRequest, TooManyRequests, HTTPException)
    app = Starlette(routes=routes, exception_handlers=dict.fromkeys(refused, _refuse))
    app.router.redirect_slashes = False
    return RequestChecker(app, hosts)


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > LARGEST_BODY:
            raise HTTPException(413, f"a request has {LARGEST_BODY} bytes at most")
    return body


def _neuron(q: Query) -> dict[str, Any]:
    column = q.number("column", 0, len(q.source.recording.layers[q.layer].neurons) - 1)
    return q.source.neuron(q.sample, q.layer, q.head, column, *q.window(), q.points())


def _steps(q: Query) -> dict[str, Any]:
    steps = q.source.steps(q.sample, q.layer, q.head, *q.window(MOST_STEPS))
    return steps | {"answer": q.source.answer(q.sample)}


def _lesioned(lesions: LesionQueue, q: Query, wanted: Any) -> dict[str, Any]:  # noqa: ANN401
    """Outputs and gates of a lesioned model, over the same window and in the same form as `curves`."""
    start, stop = q.window()
    size = max(1, (stop - start) // q.points())
    outputs, answer, gates = lesions.ask(q.source, q.sample, q.layer, wanted)

    def columns(values: np.ndarray, shown: int) -> list[dict[str, Any]]:
        values = np.repeat(values, stop, 0) if len(values) == 1 else values  # one answer for all steps
        rows = summary(np.repeat(values[start:stop, None, :shown], 3, 1), size, np.ones(stop - start))
        return [
            {"low": plain(c[:, 0]), "high": plain(c[:, 1]), "mean": plain(c[:, 2])}
            for c in np.moveaxis(rows, 2, 0)
        ]

    return {
        "step": list(range(start, stop, size)),
        "output": columns(outputs.float().numpy(), _ANSWERS),
        "gates": columns(gates[:, q.head].float().numpy(), gates.shape[-1]),
        "answer": None if answer is None else plain(answer.float().numpy()),
    }


_READS: dict[str, Callable[[Query], Any]] = {
    "circuit": lambda q: q.source.circuit(q.layer, q.head),
    "spread": lambda q: q.source.spread(q.sample, q.layer, q.head),
    "curves": lambda q: q.source.curves(q.sample, q.layer, q.head, *q.window(), q.points()),
    "neuron": _neuron,
    "steps": _steps,
}


def _refuse(request: Request, error: Exception) -> Response:
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)
    return JSONResponse({"error": str(error)}, 503 if isinstance(error, TooManyRequests) else 400)
