"""Health of drives, as they report it: NVMe logs, smartctl, PCIe links; and flags that follow."""
