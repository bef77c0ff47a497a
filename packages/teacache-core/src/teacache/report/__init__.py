"""Comparing pictures and drawing the result. Imports no mflux and no MLX; pillow and scikit-image inside functions."""
