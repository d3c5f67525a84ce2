"""What Python users and commands call alike; `kgedit` itself offers the public names."""
