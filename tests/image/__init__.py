"""Tests of the image: `make image-test` builds the Dockerfile and runs what it built."""
