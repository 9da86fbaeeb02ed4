"""What does a real machine do? One description of measurements for real and simulated adapters.

``plan`` says what is measured, ``documents`` and ``perftest`` read measurements, ``simulated`` makes them on the
models. ``calibrate`` fits a platform to them.
"""
