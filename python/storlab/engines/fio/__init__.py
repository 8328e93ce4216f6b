"""The fio engine."""
