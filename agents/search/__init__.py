"""What searches: trees, playouts, one evaluation of positions, and the exact solver of ends."""
