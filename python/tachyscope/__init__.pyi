# The package's names for type checkers; at run time __init__.py loads them when they are asked for.
from typing import Any

from . import ops as ops
from ._async_engine import AsyncEngine as AsyncEngine
from ._engine import ArgumentError as ArgumentError
from ._engine import Cancelled as Cancelled
from ._engine import EngineError as EngineError
from ._engine import NotFinite as NotFinite
from ._engine import NotFound as NotFound
from ._engine import OutOfMemory as OutOfMemory
from ._generate import Engine as Engine
from ._generate import Job as Job
from ._pipeline import TachyscopeWanPipeline as TachyscopeWanPipeline
from ._result import Audio as Audio
from ._result import Frame as Frame
from ._result import Plan as Plan
from ._result import Preview as Preview
from ._result import Progress as Progress
from ._result import Result as Result
from ._world import World as World

__version__: str

def build_info() -> dict[str, Any]: ...
def enable_torch() -> None: ...
def graph(module: Any, *example: Any, warmup: int = 3, **example_keywords: Any) -> Any: ...
def optimize(thing: Any, level: str = "safe", *, verbose: bool = True) -> Any: ...
def restore(thing: Any) -> int: ...
def ring_kv_cache(layers: int, window: int, frame_tokens: int, heads: int, head_dim: int, *, dtype: Any = ..., device: Any = None) -> Any: ...
def set_threads(threads: int) -> None: ...
def threads() -> int: ...
def __getattr__(name: str) -> Any: ...
