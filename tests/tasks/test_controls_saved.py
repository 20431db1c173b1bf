"""Controls on disk answer what they answered, to the last bit or nearly so."""

import json

import pytest
import torch

from nacre.data.dataset import Kind
from nacre.tasks.controls import controls_for
from nacre.tasks.controls.saved import load_control, save_control
from support.controls import example, fitted, halves


@pytest.mark.parametrize("kind", list(Kind))
def test_a_control_that_is_kept_answers_the_same(kind, tmp_path):
    data = example(kind)
    train, test = halves(data)
    for name in controls_for(data):
        control = fitted(name, data, train)
        assert save_control(control, tmp_path / name), name
        again = load_control(tmp_path / name)
        assert again.parameters == control.parameters
        torch.testing.assert_close(again.predict(data, test), control.predict(data, test), rtol=1e-5, atol=1e-6)
        assert {p.suffix for p in (tmp_path / name).iterdir()} == {".json", ".safetensors"}
        assert save_control(again, tmp_path / f"{name}-twice")
        assert torch.equal(load_control(tmp_path / f"{name}-twice").predict(data, test), again.predict(data, test))


def test_of_two_classes_and_of_one(tmp_path):
    data = example(Kind.CLASSIFICATION)
    train, test = halves(data)
    for most in (1, 0):
        few = type(data)(**{**vars(data), "y": data.y.clamp(max=most)})
        control = fitted("linear", few, train)
        save_control(control, tmp_path / str(most))
        same = load_control(tmp_path / str(most)).predict(few, test)
        torch.testing.assert_close(same, control.predict(few, test), rtol=1e-5, atol=1e-6)


def test_what_is_damaged_is_refused(tmp_path):
    data = example(Kind.CLASSIFICATION)
    save_control(fitted("time-only", data, halves(data)[0]), tmp_path)
    about = json.loads((tmp_path / "control.json").read_text())
    for wrong in (
        {**about, "control": "nothing"},
        {**about, "parts": {"_predict": "tensor"}},
        {**about, "parts": {"_tree": "line"}},
        {key: value for key, value in about.items() if key != "layout"},
    ):
        (tmp_path / "control.json").write_text(json.dumps(wrong))
        with pytest.raises(ValueError, match="holds no control that can be read"):
            load_control(tmp_path)
    (tmp_path / "control.json").write_text(json.dumps(about))
    (tmp_path / "control.safetensors").write_bytes(b"no")
    with pytest.raises(ValueError, match="holds no control that can be read"):
        load_control(tmp_path)
