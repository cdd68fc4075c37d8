"""x"""
from glassformer.export.answer import run_answers
from pathlib import Path
NODE_JS = Path(__file__).parent / "page" / "node.mjs"
def page_answers(page, texts, num_beams):
    return run_answers(["node", NODE_JS, page, str(num_beams)], texts)
