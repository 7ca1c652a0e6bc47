"""What every part shares: types, protocols, configuration, seeding, files. No torch."""
