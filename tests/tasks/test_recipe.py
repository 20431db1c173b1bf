"""Recipes: the ones that nacre comes with against the paper's table, and what is said about bad ones."""

import dataclasses
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nacre.data.files.catalogue import loader_of
from nacre.tasks.listing import print_tasks
from nacre.tasks.recipe import Profile, Recipe, list_recipes, load_recipe, parse_recipe, to_toml
from nacre.tasks.recipe_sections import ImageRecipe, NetworkRecipe, SplitRecipe, TrainingRecipe
from support.hypothesis import examples
from support.refused import refused

SHIPPED = [
    "bearings",
    "carracing",
    "ettm1",
    "ettm1-gaps",
    "ettm1-irregular",
    "event-mnist",
    "event-mnist-11",
    "jena",
]
SHIPPED += ["jena-gaps", "jena-irregular", "person-activity", "spiral", "udacity"]
# The paper's table of hyper-parameters: convolutions, width, heads, dense, batch, epochs.
PAPER = {
    "event-mnist": (((64, 5, 1), (64, 5, 1)), 64, 8, (32,), 32, 150),
    "person-activity": (((64, 5, 1), (64, 3, 1)), 32, 4, (32,), 20, 100),
    "ettm1": ((), 64, 16, (), 64, 50),
    "jena": ((), 64, 16, (), 64, 50),
    "bearings": (((32, 3, 1), (16, 2, 1)), 16, 8, (), 32, 150),
}


# --- those that nacre comes with ----------------------------------------------------------------------------


def test_the_shipped_tasks():
    assert {*SHIPPED} <= {*list_recipes()}


@pytest.mark.parametrize("name", list_recipes())
def test_shipped_recipes_load_and_come_back_from_toml(name):
    recipe = load_recipe(name)
    assert recipe.name == name
    assert recipe.summary
    assert callable(loader_of(recipe.data["name"]))
    assert parse_recipe(to_toml(recipe), name) == recipe
    assert load_recipe(Path(name)) == recipe


@pytest.mark.parametrize("name", PAPER)
def test_sizes_are_those_of_the_papers_table(name):
    recipe = load_recipe(name)
    network, training = recipe.network, recipe.training
    found = (network.conv, network.d_model, network.num_heads, network.dense, training.batch_size, training.epochs)
    assert found == PAPER[name]
    assert (training.optimizer, training.lr) == ("adamw", 1e-3)
    assert recipe.column == name
    assert recipe.split.folds == (7 if name == "bearings" else 5)  # one for each bearing of the condition
    assert recipe.models == {}  # NAC with its defaults: top-K 8, half of the synapses


def test_windows_and_splits_are_as_described():
    for name in ("ettm1", "jena"):
        assert load_recipe(name).data == {"name": name, "lookback": 48, "horizon": 24}
    assert load_recipe("person-activity").data == {"name": "person-activity", "window": 32, "stride": 16}
    split = {name: load_recipe(name).split for name in SHIPPED}
    assert {name: s.by for name, s in split.items()} == {
        "bearings": "auto",
        "carracing": "auto",
        "ettm1": "time",
        "ettm1-gaps": "group",
        "ettm1-irregular": "time",
        "event-mnist": "official",
        "event-mnist-11": "official",
        "jena": "time",
        "jena-gaps": "group",
        "jena-irregular": "time",
        "person-activity": "group",
        "spiral": "group",
        "udacity": "group",
    }
    assert (split["ettm1"].test_share, split["jena"].test_share) == (0.1, 0.2)


def test_eleven_tokens_are_event_mnist_with_the_authors_strides():
    many, few = load_recipe("event-mnist"), load_recipe("event-mnist-11")
    assert few.network.conv == ((64, 5, 5), (64, 5, 5))
    network = dataclasses.replace(few.network, conv=many.network.conv)
    words = {"name": many.name, "summary": many.summary, "column": many.column}
    assert dataclasses.replace(few, network=network, **words) == many


def test_printed_tasks_are_all_there(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    print_tasks()
    lines = capsys.readouterr().out.splitlines()
    for name in SHIPPED:
        recipe = load_recipe(name)
        (row,) = [line for line in lines if line.split()[:1] == [name]]
        assert recipe.summary in row
        assert row.split()[-2:] == [str(recipe.training.epochs), str(recipe.training.quick_steps)]
    for control in ("majority", "mean", "persistence", "linear", "time-only"):
        assert any(line.split()[:1] == [control] for line in lines)
    assert any(
        "convolution 64@5, convolution 64@3, layer of width 32 with 4 heads, dense 32" in line for line in lines
    )
    assert any("split by group, or by time where groups are few; " in line for line in lines)  # "auto"


# --- a file of your own -------------------------------------------------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.one_of(
    TEXT, st.integers(-(2**60), 2**60), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)


@given(
    summary=TEXT,
    options=st.dictionaries(st.sampled_from(["top_k", "seed", "phi"]), VALUES | st.lists(VALUES, max_size=3)),
    pattern=TEXT,
    network=st.builds(
        NetworkRecipe,
        conv=st.lists(st.tuples(st.integers(1, 99), st.sampled_from([1, 3, 9]), st.integers(1, 9)), max_size=3),
        dense=st.lists(st.integers(1, 99), max_size=3),
        dropout=st.floats(0, 0.95),
        time_scale=st.floats(0, 1e300),
    ),
)
@examples(50)
@example(summary='"\x7f\n', options={}, pattern="nac*\x7f\U0001f41a", network=NetworkRecipe())  # TOML escapes more
def test_any_recipe_comes_back_from_toml(summary, options, pattern, network):
    recipe = Recipe("mine", summary, "", {"csv": summary}, network=network, models={pattern: options})
    assert parse_recipe(to_toml(recipe), "mine") == recipe


def test_a_file_is_read_and_csv_is_seen_from_it(tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    folder = tmp_path / "tasks"
    folder.mkdir()
    path = folder / "mine.toml"
    path.write_text('summary = "größer"\n[data]\ncsv = "../pulse.csv"\ntime = "t"\n', "utf-8")
    recipe = load_recipe(path)
    assert (recipe.name, recipe.summary) == ("mine", "größer")
    assert recipe.data == {"csv": str(tmp_path.resolve() / "pulse.csv"), "time": "t"}
    assert load_recipe(str(path)) == recipe
    again = tmp_path / "elsewhere.toml"
    again.write_text(to_toml(recipe), "utf-8")  # as runs keep it
    assert load_recipe(again).data == recipe.data


def test_what_is_left_out_has_defaults():
    recipe = parse_recipe("", "mine")
    assert recipe == Recipe("mine")
    assert (recipe.split, recipe.network, recipe.training) == (SplitRecipe(), NetworkRecipe(), TrainingRecipe())


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(FileNotFoundError, match="no recipe .*gone.toml; `nacre tasks` lists"):
        load_recipe(tmp_path / "gone.toml")
    with pytest.raises(
        ValueError,
        match="unknown task 'etm1'; did you mean 'ettm1'[?] There are bearings, carracing, ettm1",
    ):
        load_recipe("etm1")
    path = tmp_path / "mine.toml"
    path.write_bytes('summary = "größer"'.encode("latin-1"))
    with pytest.raises(ValueError, match="mine.toml is not UTF-8 text"):
        load_recipe(path)
    path.write_text("[data]\ncsv = what")
    with pytest.raises(ValueError, match="mine.toml is not TOML: .*line 2"):
        load_recipe(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sumary = ''", "unknown key sumary; did you mean 'summary'? There are summary, column, data, split"),
        ("name = 'other'", "unknown key name; there are summary"),
        ("zzz = 1", "unknown key zzz; there are summary"),
        ("[split]\nfold = 3", "unknown key split.fold; did you mean 'folds'? There are by, folds, test_share"),
        ("[network]\nheads = 3", "unknown key network.heads; did you mean 'num_heads'"),
        ("[training]\nepoch = 3", "unknown key training.epoch; did you mean 'epochs'"),
        ("split = 3", "split must be a table, [split], got 3"),
        ("data = 'ettm1'", "data must be a table, [data], got 'ettm1'"),
        ("models = []", "models must be a table, [models], got []"),
        ("[models]\nnac = 3", "models.nac must be a table of options, [models.nac], got 3"),
        ("summary = 3", "summary must be text, got 3"),
        ("column = ['jena']", "column must be text, got ['jena']"),
        ("[data]\ncsv = 3", "data.csv must be text, got 3"),
        (
            "[split]\nby = 'grup'",
            "split.by must be one of 'auto', 'group', 'official', 'time', got 'grup'; did you",
        ),
        ("[split]\nfolds = 1", "split.folds must be at least 2, got 1"),
        ("[split]\ntest_share = 0", "split.test_share must lie in (0.0, 0.9], got 0"),
        ("[network]\nd_model = 1", "network.d_model must be at least 2, got 1"),
        ("[network]\nd_model = '64'", "network.d_model must be an integer, got '64' (str)"),
        ("[network]\nnum_heads = 0", "network.num_heads must be at least 1, got 0"),
        ("[network]\ndropout = 1.0", "network.dropout must lie in [0.0, 0.95], got 1.0"),
        ("[network]\ntime_scale = -1", "network.time_scale must lie in [0.0, inf), got -1"),
        ("[network]\nconv = 5", "network.conv must be a list, got 5"),
        ("[network]\nconv = [5]", "network.conv must be a list, got 5"),
        ("[network]\nconv = [[64, 5]]", "network.conv must hold [filters, kernel size, stride], got [64, 5]"),
        (
            "[network]\nconv = [[64, 4, 2]]",
            "network.conv: kernel sizes must be odd where the stride is not 1, got [64, 4, 2]",
        ),
        ("[network]\nconv = [[0, 5, 1]]", "filters of network.conv must be at least 1, got 0"),
        ("[network]\nconv = [[64, 5, 0]]", "stride of network.conv must be at least 1, got 0"),
        ("[network]\ndense = 32", "network.dense must be a list, got 32"),
        ("[network]\ndense = [0]", "network.dense must be at least 1, got 0"),
        ("[training]\noptimizer = 'adamv'", "training.optimizer must be one of 'adam', 'adamw', got 'adamv'"),
        ("[training]\nlr = 0", "training.lr must lie in (0.0, 10.0], got 0"),
        ("[training]\nweight_decay = -1", "training.weight_decay must lie in [0.0, 10.0], got -1"),
        ("[training]\nclip = inf", "training.clip must lie in (0.0, inf), got inf"),
        *(
            (f"[training]\n{key} = 0", f"training.{key} must be at least 1, got 0")
            for key in ("batch_size", "epochs", "patience", "quick_steps", "quick_valid")
        ),
    ],
)
def test_bad_keys_and_values_are_named(text, message):
    with pytest.raises(ValueError, match=f"^mine.toml: {re.escape(message)}"):
        parse_recipe(text, "mine", source="mine.toml")


# --- digest -------------------------------------------------------------------------------------------------


def test_the_digest_ignores_words():
    recipe = load_recipe("ettm1")
    assert dataclasses.replace(recipe, summary="other", column="").digest == recipe.digest
    assert parse_recipe(to_toml(recipe), "ettm1").digest == recipe.digest


def test_the_digest_depends_on_everything_else():
    recipe = Recipe("mine", data={"name": "spiral"})
    others = [
        dataclasses.replace(recipe, name="yours"),
        dataclasses.replace(recipe, data={"name": "spiral", "n": 7}),
        dataclasses.replace(recipe, models={"nac": {"top_k": 3}}),
        dataclasses.replace(recipe, models={"nac": {"top_k": 4}}),
    ]
    changes = {
        "split": {"by": "group", "folds": 4, "test_share": 0.3},
        "network": {
            "d_model": 32,
            "num_heads": 2,
            "conv": [[4, 3, 1]],
            "dense": [4],
            "dropout": 0.5,
            "time_scale": 2.0,
            "block": False,
            "depth": 2,
            "relative": False,
            "linear": False,
            "image": ImageRecipe([[4, 3, 2]]),
        },
        "training": {
            "optimizer": "adam",
            "lr": 0.01,
            "weight_decay": 0.0,
            "batch_size": 3,
            "clip": 2.0,
            "schedule": "constant",
            "warmup": 0.5,
            "epochs": 3,
            "patience": 3,
            "steps": 3,
            "quick_steps": 3,
            "quick_valid": 3,
            "augment": "steering",
            "loss": "mae",
            "class_weights": "balanced",
            "quantiles": (0.5,),
        },
    }
    for section, table in changes.items():
        part = getattr(recipe, section)
        assert list(table) == [field.name for field in dataclasses.fields(part)]
        for key, value in table.items():
            others.append(dataclasses.replace(recipe, **{section: dataclasses.replace(part, **{key: value})}))
    assert len({recipe.digest, *(other.digest for other in others)}) == 1 + len(others)


def test_images_are_looked_at_as_in_the_paper():
    carracing = load_recipe("carracing")
    assert carracing.network.image == ImageRecipe(((10, 3, 2), (20, 5, 2), (30, 5, 2)), dropout=0.2)
    assert (carracing.network.d_model, carracing.network.num_heads, carracing.network.dense) == (64, 16, (64,))
    assert parse_recipe(to_toml(carracing), "carracing") == carracing


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("conv = [[4, 2, 3]]", "network.image.conv: kernel sizes must be odd where the stride is not 1"),
        ("conv = 3", "network.image.conv must be a list, got 3"),
        ('conv = [[4, 3, 1]]\ntokens = "rows"', "network.image.tokens must be one of .*, got 'rows'"),
        ('conv = [[4, 3, 1]]\ncolour = "yuv"', "unknown key network.image.colour; did you mean 'colours'"),
        ("dropout = 0.1", "missing .* 'conv'"),
    ],
)
def test_bad_images_are_named(text, message):
    with pytest.raises(ValueError, match=message):
        parse_recipe(f"[network.image]\n{text}", "mine")


# --- profiles -----------------------------------------------------------------------------------------------

SIZED = """
[data]
name = "spiral"
[network]
d_model = 64
dense = [8]
[standard.network]
d_model = 32
[standard.training]
steps = 70
"""


def test_a_profile_changes_what_the_recipe_says():
    recipe = parse_recipe(SIZED, "mine")
    assert recipe.at(Profile.PAPER) is recipe
    small = recipe.at(Profile.STANDARD)
    assert small == recipe.at(Profile.QUICK) == small.at(Profile.STANDARD)
    assert (small.network.d_model, small.network.dense, small.training.steps) == (32, (8,), 70)
    assert parse_recipe(to_toml(small), "mine") == small
    assert parse_recipe(to_toml(recipe), "mine") == recipe
    plain = parse_recipe(SIZED.partition("[standard")[0], "mine")
    assert plain.at(Profile.STANDARD) is plain


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[standard.split]\nfolds = 3", "table of standard must be one of 'network', 'training', got 'split'"),
        ("[standard.network]\nwidth = 3", r"unknown key standard.network.width"),
        ("[standard.network]\nd_model = 0", "network.d_model must be at least 2, got 0"),
        ("[training]\nschedule = 'linear'", "training.schedule must be one of 'cosine', 'constant'"),
        ("[training]\nwarmup = 1.5", "training.warmup must lie in"),
        ("[network]\nblock = 1", "network.block must be True or False"),
        ("[network]\ndepth = 0", "network.depth must be at least 1"),
        ("standard = 3", r"standard must be a table, \[standard\], got 3"),
    ],
)
def test_profiles_and_blocks_are_checked(text, message):
    with pytest.raises(ValueError, match=message):
        parse_recipe(text, "mine")


def test_values_that_no_recipe_can_have_are_named():
    for text, message in (
        ("network = { image = 5 }", "network.image must be a table, \\[network.image\\], got 5"),
        ("[models.nac]\ntop_k = 2020-01-01", "models.nac.top_k must not be a date or a time, got 2020-01-01"),
        ("[models.nac]\ntop_k = [1, 12:30:00]", "models.nac.top_k must not be a date or a time, got 12:30:00"),
        (f"training = {{ steps = {10**30} }}", "training.steps must be an integer of 64 bits, got one of 100"),
        (f"data = {{ seed = {2**63} }}", "data.seed must be an integer of 64 bits, got one of 64"),
        ("data = " + "[" * 100_000, "mine.toml has too many brackets within brackets"),
        (f"training = {{ lr = {'9' * 5000} }}", "mine.toml holds what Python cannot read: .*4300 digits"),
    ):
        with refused(message):
            parse_recipe(text, "mine", "mine.toml")
