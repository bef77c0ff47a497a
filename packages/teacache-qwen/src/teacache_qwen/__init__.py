"""The adapter for Qwen-Image: what the core must know of mflux's classes. Imports neither mflux nor MLX."""
