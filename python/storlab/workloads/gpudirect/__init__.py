"""The GPUDirect family: storage to GPU memory, directly and by way of host memory."""
