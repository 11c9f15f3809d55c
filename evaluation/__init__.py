"""How right the diagnosis is: jobs whose faults are known, and the scores of what is said of them."""
