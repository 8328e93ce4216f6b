"""fio engine: block I/O by fio, with importer and exporter of its JSON."""
