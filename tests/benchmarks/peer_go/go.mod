// An extender as one writes it by hand, for Placet to be measured against; the standard library only.
module placet/tests/benchmarks/peer

go 1.22
