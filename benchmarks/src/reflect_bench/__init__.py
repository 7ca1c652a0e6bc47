"""How fast training is: this package against loops in the style of the public reference code, on equal episodes."""
