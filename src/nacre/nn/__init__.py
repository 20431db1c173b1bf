"""Drop-in classes with the signatures of `torch.nn`, and `stamps`, by which time reaches them."""

from nacre.nn.encoder_layer import NACEncoderLayer as NACEncoderLayer
from nacre.nn.multihead_attention import NACMultiheadAttention as NACMultiheadAttention
from nacre.nn.time import stamps as stamps
