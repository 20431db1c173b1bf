"""Small drives and networks for tests: no environment is needed to make them."""

import json

import numpy as np
import torch

from nacre.data.dataset import Kind
from nacre.data.sets.episodes import Drive, Episode, write_episode
from nacre.io import save
from nacre.tasks.network import TaskNetwork
from nacre.tasks.recipe import Recipe, to_toml
from support.runs import fields

IMAGE = {"size": [96, 96], "conv": [[4, 3, 2], [4, 5, 4], [6, 5, 2]]}
CAUSAL = {"causal": True, "block_size": 1}


def episode(seed=0, steps=6, **drive):
    random = np.random.default_rng(seed)
    return Episode(
        drive=Drive(seed, **drive),
        frames=random.integers(0, 256, (steps, 96, 96, 3), np.uint8),
        action=random.integers(0, 5, steps),
        label=random.integers(0, 5, steps),
        pose=random.normal(size=(steps, 5)),
        road=random.normal(size=(30, 2)),
        outcome={"finished": True, "progress": 1.0},
    )


def write_episodes(folder, count=3, steps=6):
    return [write_episode(folder, episode(seed, steps + seed)) for seed in range(count)]


def network(model="nac", kind=Kind.CLASSIFICATION, outputs=5, image=IMAGE, seed=0, **options):
    torch.manual_seed(seed)
    made = TaskNetwork(
        model, kind, 3, outputs, d_model=8, num_heads=2, dense=[8], image=image, options=options, time_scale=0.06
    )
    made.shift, made.scale = torch.full((3,), 127.5), torch.full((3,), 127.5)
    return made.eval()


def write_run(directory, model="nac", seeds=(0, 1, 2), weight_seed=0, **options):
    """A run directory as `nacre train carracing` writes it, with an untrained network."""
    net = network(model, **(CAUSAL if model.startswith("nac") else {}), **options)
    with torch.no_grad():
        net.head[-1].bias.copy_(torch.randn(5, generator=torch.Generator().manual_seed(weight_seed)))
    directory.mkdir(parents=True)
    save(net, directory / "model")
    recipe = Recipe("carracing", data={"name": "carracing", "frames": 4})
    (directory / "recipe.toml").write_text(to_toml(recipe))
    count = sum(p.numel() for p in net.parameters())
    files = {f"{seed:06d}-expert.npz": "" for seed in seeds}
    result = fields(model, value=50.0, task="carracing", metric="accuracy", parameters=count, files=files)
    (directory / "result.json").write_text(json.dumps(result | {"fingerprint": ""}))
    return directory
