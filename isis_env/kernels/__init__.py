"""How code is compiled (`jit`), written in vectors (`vectors`) and spread over threads (`threads`)."""
