"""The view: its answers, its page, drafts and explanations."""
