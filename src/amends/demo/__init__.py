"""The reference scenarios: real destinations and workers in processes of their own, and real faults.

``scenarios`` says what is to happen and is fixed before anything runs; ``shop`` is the application, which
knows nothing of faults; ``worker`` runs it in a process of its own. ``stage`` holds the destinations, the
clock and the workers; ``faults`` breaks things; ``account`` counts what was done, at the destinations.
``play`` puts them together. Nothing here is imported before it is needed.
"""
