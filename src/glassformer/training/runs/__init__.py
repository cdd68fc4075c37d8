"""What a run leaves for people: its history, a picture of it, logs of other programs, and a comparison of runs."""
