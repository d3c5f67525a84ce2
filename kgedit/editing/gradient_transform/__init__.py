"""Updates computed from the factors of a gradient: `mend` by a trained network, `ultraedit` in closed form."""
