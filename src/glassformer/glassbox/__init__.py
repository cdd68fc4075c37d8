"""The glass box: every number behind one translation, what happens when something is changed, and what matters.

    schema                        what a trace is, in Python and as JSON Schema
    catalogue · formulas          what each quantity is: its op, axes, words and MathML
    recorder · search · whatif    the reference, writing down what it does; a search with its losers; edits
    run · subject                 one source through the reference; model and text as parts of a trace
    interpreter · checks          every step redone from its inputs
    evidence · history            occlusion, gradients, heads; the training, and the text through its checkpoints
    trace                         all of it for one text: `explain(model, text) -> Trace`

docs/trace-schema.md tells the trace in words; the page reads nothing else.
"""
