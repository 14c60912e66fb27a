"""Rehearsal destinations: small real services, each its own process and store, and a proxy that loses on command.

A tool under test meets the outside world's own rules here (keys that expire, lists that lag, answers that never come),
and a test counts what was really done, at the destination. Start with `amends.testing.rehearsal.world`.
Nothing is imported here, so that each server starts with only what it needs.
"""
