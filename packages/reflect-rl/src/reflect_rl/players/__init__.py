"""The two players: reflectors write, policies choose."""
