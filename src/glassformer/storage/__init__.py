"""Files of a model: written at once or not at all, read with their sizes and digests checked."""
