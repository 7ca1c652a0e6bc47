"""Tables, figures and the HTML page, made from the files of a run folder. They load no torch."""
