"""gdsio engine: the GPUDirect Storage benchmark of the CUDA toolkit, as a reference."""
