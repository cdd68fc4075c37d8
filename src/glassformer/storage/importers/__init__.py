"""Models of other programs, brought into ours.

marian   a MarianMT folder of Hugging Face (OPUS-MT) -> ModelFile
spm      a SentencePiece model file -> plain data
"""
