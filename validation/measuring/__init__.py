"""Measuring: one description of measurements for real and simulated adapters, and the fit of a platform to them."""
