"""Everything that needs torch, transformers or tokenizers: training encoders and taking them apart.

From text to vectors, one file per arrow:

    tokenisation    text -> vocabulary -> pieces
    tokens          pieces -> token files on disk
    data            the files of a recipe -> streams of sentences and sentence pairs
    batches         (seed, step) -> the sentences of a batch
    masking         batch -> what the model sees and must predict
    encoder         ids -> hidden states -> scores -> loss
    optimisers      step -> learning rate; AdamW
    train           the loop
    checkpoint      state <-> disk
    interop         our weights <-> a transformers folder
    loading         a folder or hub name -> any encoder
    extract         encoder, text -> activations

``settings`` holds what a recipe can say.
"""

if __name__ != "crosslens.models":
    raise ImportError("import this package as crosslens.models, not as models")

__all__: list[str] = []
