"""The adapter for Z-Image: what the core must know of mflux's classes. Imports neither mflux nor MLX."""
