"""Result directories: storage, reading and checks of runs."""
