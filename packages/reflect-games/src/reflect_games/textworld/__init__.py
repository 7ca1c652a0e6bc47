"""Any game of TextWorld that names its admissible commands."""
