"""What does a real machine do? One description of measurements for real and simulated adapters.

``plan`` lists the measurements to make, ``documents`` and ``perftest`` read measurements, ``simulated`` makes them on
the models. ``calibrate`` fits a platform to them.
"""
