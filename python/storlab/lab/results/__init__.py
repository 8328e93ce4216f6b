"""Result directories."""
