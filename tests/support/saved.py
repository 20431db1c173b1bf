"""Saved models, and ways to change them."""

import hashlib
import json

from safetensors.torch import load, save


def weights_of(directory):
    return next(directory.glob("*.safetensors"))


def read_tensors(directory):
    return load(weights_of(directory).read_bytes())


def read_header(directory):
    return json.loads((directory / "model.json").read_text())


def write_header(directory, header):
    (directory / "model.json").write_text(json.dumps(header))


def write_weights(directory, data):
    """Replace the weights, and make name and checksum fit."""
    header, digest = read_header(directory), hashlib.sha256(data).hexdigest()
    weights_of(directory).unlink()
    header |= {"weights": f"weights-{digest[:16]}.safetensors", "sha256": digest}
    (directory / header["weights"]).write_bytes(data)
    write_header(directory, header)


def write_tensors(directory, tensors):
    write_weights(directory, save({name: value.clone().contiguous() for name, value in tensors.items()}))
