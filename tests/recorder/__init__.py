"""The recorder: what the whole program answers over many worlds, as digests to compare with.

It drives what users see: the `placet` command and its HTTP wire. It must not import a package of
the program, nor a helper of the tests that does, so that it runs against any version of it.
"""
