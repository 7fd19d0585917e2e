"""Tests of the language server: sessions as editors have them."""
