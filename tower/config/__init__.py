"""Floor 1: reads the configuration file and the prompt files, and says what is wrong with them."""
