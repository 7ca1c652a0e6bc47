"""Online training of both players: the policy picks actions, and the reflection player learns from the same turns."""
