"""Floor 2 knows hardware: NIC, PCIe, caches, memory, CPU, fabric, and the platforms' numbers; no stores."""
