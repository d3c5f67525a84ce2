"""Closed-form changes of MLP matrices at the subject: `rome`, `r_rome`, `c_rome`, `memit`, `alphaedit`."""
