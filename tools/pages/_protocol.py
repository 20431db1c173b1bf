"""Where recipes of the profile `paper` differ from the paper's appendix, and why: a table of docs/harness.md."""

from collections.abc import Callable

from nacre.data.sets.episodes import FRAME
from nacre.data.sets.udacity_images import SIZE
from nacre.layer.config import NACConfig
from nacre.tasks.recipe import Recipe, load_recipe

from ._shared import table

# By task, what the paper's Table "Summary of Key Hyperparameters" and the text of its appendix say.
PAPER = {
    "event-mnist": {"layer": "64 wide, 8 heads", "batch": "32", "epochs": "150", "length": "padded to 256"},
    "person-activity": {"layer": "32 wide, 4 heads", "batch": "20", "epochs": "100", "length": "1"},
    "ettm1": {
        "layer": "64 wide, 16 heads",
        "batch": "64",
        "epochs": "50",
        "length": "96 (in the text: 12 h, 48 rows)",
    },
    "jena": {
        "layer": "64 wide, 16 heads",
        "batch": "64",
        "epochs": "50",
        "length": "96 (in the text: 8 h, 48 rows)",
    },
    "carracing": {"layer": "64 wide, 16 heads", "batch": "32", "epochs": "100", "length": "1"},
    "udacity": {"layer": "100 wide, 20 heads", "batch": "40", "epochs": "10", "length": "1"},
    "bearings": {"layer": "16 wide, 8 heads", "batch": "32", "epochs": "150", "length": "1000"},
}
OPTIMIZER = "AdamW, 0.001"
PAPER["carracing"]["optimiser, rate"] = "Adam, 0.0001"
for _task in ("ettm1", "jena"):
    PAPER[_task]["keys of a query"] = "32"
PAPER["carracing"]["image"] = "92 x 92"
PAPER["udacity"]["image"] = "66 x 120"

NAMES = {"adam": "Adam", "adamw": "AdamW"}
HERE: dict[str, Callable[[Recipe], str]] = {
    "layer": lambda r: f"{r.network.d_model} wide, {r.network.num_heads} heads",
    "batch": lambda r: str(r.training.batch_size),
    "epochs": lambda r: str(r.training.epochs),
    "optimiser, rate": lambda r: f"{NAMES[r.training.optimizer]}, {r.training.lr:g}",
    "keys of a query": lambda r: str(r.options("nac").get("top_k", NACConfig(d_model=8, num_heads=1).top_k)),
    "image": lambda r: " x ".join(map(str, (SIZE if r.name == "udacity" else FRAME)[:2])),
    "length": lambda r: LENGTH[r.name](r),
}
LENGTH: dict[str, Callable[[Recipe], str]] = {
    "event-mnist": lambda r: "as long as it is",
    "person-activity": lambda r: f"{r.data['window']}",
    "ettm1": lambda r: f"{r.data['lookback']}",
    "jena": lambda r: f"{r.data['lookback']}",
    "carracing": lambda r: f"{r.data['frames']} frames",
    "udacity": lambda r: "18 columns of one image",
    "bearings": lambda r: f"{r.data['steps']}",
}
ONE_STEP = "over one step, attention has nothing to choose from"
WHY = {
    ("event-mnist", "length"): "padding is left out before anything is computed",
    ("person-activity", "length"): ONE_STEP,
    ("ettm1", "length"): "that of the text",
    ("jena", "length"): "that of the text",
    ("ettm1", "keys of a query"): "the layer's default, as in all tasks; `nac-32k` has 32",
    ("jena", "keys of a query"): "the layer's default, as in all tasks; `nac-32k` has 32",
    ("carracing", "length"): ONE_STEP,
    ("carracing", "optimiser, rate"): "one optimiser for all tasks",
    ("carracing", "image"): "what Gymnasium's CarRacing gives",
    ("udacity", "length"): ONE_STEP,
    ("udacity", "layer"): "that of the other driving task",
    ("udacity", "image"): "what NVIDIA's network, which the paper follows, reads",
    ("bearings", "length"): "ours, a choice; not compared with 1,000",
}


def common() -> list[tuple[str, str, str, str, str]]:
    """What the recipes add in all tasks alike, and the paper's appendix does not name."""
    recipes = [load_recipe(task) for task in PAPER]
    for setting in ("clip", "schedule", "weight_decay", "patience"):
        if len({getattr(recipe.training, setting) for recipe in recipes}) > 1:
            raise ValueError(f"recipes differ in training.{setting}: give each task its row")
    if not all(recipe.network.block for recipe in recipes):
        raise ValueError("recipes differ in network.block: give each task its row")
    training = recipes[0].training
    stop = f"after {training.patience} epochs without a better validation loss, at the latest with the last"
    return [
        ("all", "gradients", "not said", f"clipped at {training.clip:g}", "ours; `clip`"),
        ("all", "end of training", "after all epochs", stop, "ours; `patience`"),
        ("all", "rate over time", "not said", training.schedule, 'ours; `schedule = "constant"` switches it off'),
        ("all", "weight decay", "not said", f"{training.weight_decay:g}", "ours; `weight_decay`"),
        ("all", "around the layer", "no block named", "a residual block", "ours; `block = false` switches it off"),
    ]


def protocol() -> str:
    """Each setting in which a recipe differs, with the reason, then what holds for all tasks."""
    body, equal = [], dict[str, None]()
    for task, says in PAPER.items():
        recipe = load_recipe(task)
        for setting, paper in {"optimiser, rate": OPTIMIZER, **says}.items():
            here, why = HERE[setting](recipe), WHY.get((task, setting))
            if (here == paper) != (why is None):
                raise ValueError(f"{task}, {setting}: the paper has {paper}, the recipe {here}; mend WHY")
            if why is None:
                equal[setting.replace(",", " and")] = None
            else:
                body.append((f"`{task}`", setting, paper, here, why))
    last = f"Of the other tasks, these settings are the paper's: {', '.join(equal)}.\n"
    return f"{table(('task', 'setting', 'paper', 'recipe', 'why'), [*body, *common()], text=True)}\n{last}"
