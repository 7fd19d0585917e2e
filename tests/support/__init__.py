"""What tests of several packages share: builders of objects, clocks, small servers."""
