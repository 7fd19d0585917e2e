"""Tests of `engine.decision`: who decides, what is kept between calls, and what is answered."""
