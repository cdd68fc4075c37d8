"""What the search of the site finds: words that a page does not say, and pages that it leaves out."""

from __future__ import annotations

from pathlib import Path

from glassformer.before.recipes.synonyms import SYNONYMS as OF_SETTINGS

SYNONYMS = {
    "docs/before-training": "clean, deduplicate, dedupe, filter, leakage, noise, preprocess, quality, vram",
    "docs/compare": "ablation, significance, significant, versus, vs",
    "docs/defaults": "auto, automl, heuristics, hyperparameter, tune",
    "docs/deploy": "android, browser, docker, inference, javascript, kubernetes, k8s, production, quantize, wasm",
    "docs/evaluate": "accuracy, benchmark, cer, f1, quality, sacrebleu",
    "docs/glassbox": "explainability, heatmap, interpretability, saliency, visualize, visualization, xai",
    "docs/glossary": "definition, meaning, terms",
    "docs/guides/g2p": "grapheme, ipa, phonetics, pronounce, speech, transliteration",
    "docs/guides/translation": "bilingual, bpe, corpus, mt, nmt, opus, parallel, sentencepiece",
    "docs/http-api": "api, endpoint, rest, service",
    "docs/import": "fine, finetune, hub, marian, pretrained, tune",
    "docs/inputs": "conditioning, context, morphology, multilingual",
    "docs/large-tables": "big, data, oom, ram, streaming",
    "docs/model-file": "format, pickle, save, vocab",
    "docs/quick-start": "begin, install, pip, setup, tutorial",
    "docs/resume": "checkpoint, crash, fine, finetune, mlflow, pretrained, transfer, tune, wandb",
    "docs/scale": "cluster, cuda, ddp, device, distributed, gpu, multi, nccl, parallel, tpu",
    "docs/translate": "decode, generate, infer, inference, predict, prediction",
    "docs/unlike": "distribution, drift, novelty, ood, outlier",
    "docs/which-tool": "alternatives, compare, comparison, cost, price, versus, vs",
    "reference/settings": ", ".join(
        sorted({word for texts in OF_SETTINGS.values() for text in texts for word in text.split()})
    ),
}
"""Page -> words that people search for; a search needs all of its words in one page, as in "fine-tune"."""


def prepare(source: Path, left_out: list[str]) -> None:
    """Write the synonyms of a page, or that the search leaves it out, in front of its text."""
    matter = {name: f"myst:\n  html_meta:\n    keywords: {words}" for name, words in SYNONYMS.items()}
    for name, lines in (matter | dict.fromkeys(left_out, "nosearch: true")).items():
        page = source / f"{name}.md"
        page.write_text(f"---\n{lines}\n---\n\n{page.read_text(encoding='utf-8')}", encoding="utf-8")
