"""Hyperparameters: typed settings, published values and EasyEdit's files. Does not import torch."""
