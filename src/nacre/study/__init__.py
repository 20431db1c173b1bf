"""Studies: small experiments that ask one question of many models."""
