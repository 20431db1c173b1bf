"""Networks as ONNX files, which run without PyTorch: export, and the checks before a file is kept."""
