"""What an operation costs, measured beside what the disk itself gives. ``main`` is the way in."""
