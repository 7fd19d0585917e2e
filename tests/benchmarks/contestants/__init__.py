"""Programs that evaluate one rule over many nodes, a round each time they are told to."""
