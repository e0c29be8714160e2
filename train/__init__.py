"""Training and evaluation from the command line: `python -m train CONFIG.yaml`, `python -m train.evaluate A B`."""
