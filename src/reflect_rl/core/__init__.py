"""What every part shares: types, protocols, configuration, seeding, run folders. Standard library, numpy and pydantic only."""
