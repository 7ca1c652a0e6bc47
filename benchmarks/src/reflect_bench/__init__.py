"""Speed of training: this package against loops in the style of the public reference code, on equal episodes."""
