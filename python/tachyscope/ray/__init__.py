"""The engine on the machines of a Ray cluster, for which Ray has to be installed (`pip install "ray[data,serve]"`, 2.60).
docs/many-machines.md says when this is the right way.

    from tachyscope.ray import actor, map_prompts, serve_app
    map_prompts("prompts.csv", "out", model="Wan2.1-T2V-1.3B", num_gpus=1, frames=81).materialize()   # a file for each row
    engine = actor("Wan2.1-T2V-1.3B", num_gpus=1)                     # an Engine in another process, maybe elsewhere
    video = ray.get(engine.generate.remote("a cat", seed=7))
    ray.serve.run(serve_app("Wan2.1-T2V-1.3B", num_gpus=1))           # videos over HTTP
"""

from ._actor import EngineActor, actor
from ._prompts import map_prompts
from ._serve import serve_app

__all__ = ["EngineActor", "actor", "map_prompts", "serve_app"]
