"""Language models behind servers of the OpenAI kind: asked politely, kept on the disk, and paid for within a budget."""
