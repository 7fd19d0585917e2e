"""What must hold of any policy, pod and node; Hypothesis looks for the one where it does not."""
