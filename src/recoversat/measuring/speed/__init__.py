"""Speed of several systems on the same sentences in the same run, other people's engines included."""
