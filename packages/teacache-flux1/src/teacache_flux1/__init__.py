"""The adapter for FLUX.1: what the core must know of mflux's classes. Imports neither mflux nor MLX."""
