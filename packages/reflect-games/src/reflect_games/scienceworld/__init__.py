"""ScienceWorld: experiments in text, played in a Java program."""
