//! One tensor and machine-learning engine that carries the PyTorch way of working wherever a program runs.
