"""The DSL, the journal and the interpreter: pure. No I/O, no clock, no asyncio."""
