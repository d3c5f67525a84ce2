"""Functions shared by Python users and commands; `kgedit` exports the public names."""
