"""From changed facts to a timestep: filters, locality, two hops, questions, final checks."""
