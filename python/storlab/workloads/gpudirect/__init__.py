"""GPUDirect family: transfers between storage and GPU memory, directly or through host memory."""
