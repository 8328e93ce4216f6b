"""GPUDirect family: transfers between storage and GPU memory, direct or through host memory."""
