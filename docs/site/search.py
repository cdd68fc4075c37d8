"""What the search of the site finds: words that a page does not say, and pages that it leaves out."""

from __future__ import annotations

from pathlib import Path

from glassformer.planning.recipes.overrides import SYNONYMS as OF_SETTINGS

SYNONYMS = {
    "docs/before-training": "clean, deduplicate, filter, leakage, label noise, preprocess, quality, vram",
    "docs/compare": "ablation, p-value, significance, versus",
    "docs/defaults": "auto, automl, heuristics, hyperparameter",
    "docs/deploy": "android, browser, docker, javascript, kubernetes, production, quantization, quantize",
    "docs/evaluate": "accuracy, benchmark, cer, f1, sacrebleu, wer",
    "docs/glassbox": "explainability, heatmap, interpretability, saliency, visualization, visualize, xai",
    "docs/glossary": "definition, meaning, terms",
    "docs/guides/g2p": "grapheme, ipa, phonetics, pronounce, speech, transliteration",
    "docs/guides/translation": "bilingual, bpe, corpus, mt, nmt, opus, sentencepiece",
    "docs/http-api": "api, endpoint, rest, web service",
    "docs/import": "hub, marian, pretrained",
    "docs/inputs": "conditioning, context, morphology, multilingual",
    "docs/large-tables": "big data, oom, out of memory, ram, streaming",
    "docs/model-file": "pickle, save, vocab",
    "docs/quick-start": "getting started, install, pip, setup, tutorial",
    "docs/resume": "crash, fine-tune, fine-tuning, finetune, mlflow, transfer learning, wandb",
    "docs/scale": "cluster, cuda, ddp, device, distributed, gpu, multi-gpu, nccl, parallel, tpu",
    "docs/translate": "decode, generate, infer, inference, predict, prediction",
    "docs/unlike": "distribution shift, drift, ood, outlier",
    "docs/which-tool": "alternatives, comparison, cost, price, versus",
    "reference/settings": ", ".join(sorted({text for texts in OF_SETTINGS.values() for text in texts})),
}
"""Page -> words that people search for. They are main entries of the index, which the search shows first."""


def prepare(source: Path, left_out: list[str]) -> None:
    """Put synonyms, and that a page is left out, in front of the pages."""
    entries = {name: ", ".join(f"! {word}" for word in words.split(", ")) for name, words in SYNONYMS.items()}
    first = {name: f"```{{index}} {listed}\n```" for name, listed in entries.items()}
    first |= dict.fromkeys(left_out, "---\nnosearch: true\n---")
    for name, lines in first.items():
        page = source / f"{name}.md"
        page.write_text(f"{lines}\n\n{page.read_text(encoding='utf-8')}", encoding="utf-8")
