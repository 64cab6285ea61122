"""What people may do: one function a verb, each with its permission and its row in the audit. No HTTP.

Rules
- ``ACTIONS`` is the table: a name, the permission that it needs, and how it is offered. Buttons, and the test
  that asks for each, are made of it.
- A function checks the permission, does it through the client, and writes a row of the audit, also where it was
  refused by the run's state. What the client raises passes through.
"""
