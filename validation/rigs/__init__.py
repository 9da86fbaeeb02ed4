"""Small arrangements of machines that measure hardware: two machines, queue pairs and buffers between them.

Experiments, calibration and benchmarks of the simulator share them.
"""
