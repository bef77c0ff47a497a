"""Small pipelines trained on drawn scenes. Importing this package imports neither mlx nor mflux."""
