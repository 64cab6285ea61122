"""What the console shows: plain functions of a ``Context`` that answer frozen values. No HTTP, no HTML.

Rules
- Whatever leaves here has been through the context's redactor, and is cut: nobody above can forget to.
- Lists are paged by key, counts are capped, and what several people ask for at once is asked once.
- A payload that cannot be opened here is shown as sealed; it is never an error of the page.
"""
