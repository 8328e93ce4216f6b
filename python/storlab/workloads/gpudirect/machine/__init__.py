"""What of this machine decides which path data take between storage and GPU memory."""
