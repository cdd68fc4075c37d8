"""The glass box: every number behind one translation, the effect of edits, and the evidence for an answer.

    schema · run_records     the format of a trace, in Python and as JSON Schema; the records of a run in it
    catalogue · formulas     for each quantity its op, axes, description (catalogue.toml) and MathML
    whatif                   edits of a model or a text
    recorder · search        a record of a forward pass; a record of the beam search, with its pruned candidates
    explained                one explained text: model, text and edits, as a computation and as parts of a trace
    pytorch                  the logits, compared with those of the PyTorch model
    evidence · history       occlusion, heads; the training, and the text translated by each checkpoint
    neighbors                nearest tokens in an embedding, and A − B + C
    trace                    all of it for one text: `explain(model, text) -> Trace`
    report                   the page as one HTML file, or as it is served

docs/trace-schema.md describes a trace; the page reads nothing else.
"""
