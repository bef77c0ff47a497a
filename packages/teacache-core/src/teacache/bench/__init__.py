"""The benchmarks behind the tables of the documentation. Nothing else of teacache imports them."""
