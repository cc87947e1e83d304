"""Everything that needs torch, transformers or tokenizers: training encoders and taking them apart.

From text to vectors, one file per arrow:

    tokenisation, vocabularies   text -> vocabularies -> pieces
    tokens                       pieces -> token files on disk
    data                         the files of a recipe -> streams
    batches, streams             (seed, epoch) -> the rows of a batch
    masking                      batch -> what the model sees and must predict
    masked_batches               step -> tensors
    encoder                      ids -> hidden states -> scores -> loss
    objective, loop              what is minimised; the one loop that all trainings go through
    masked_lm                    the objective of a recipe; a recipe -> a model folder
    optimisers                   step -> learning rate; AdamW, Adam, LAMB
    validation                   perplexity, retrieval, alignment of token embeddings
    checkpoint, events           state <-> disk; the log
    interop, folder              our weights <-> a transformers folder, or a folder of all languages' parts
    loading                      a folder or hub name -> any encoder
    units                        text -> inputs of an encoder, and where the items are in them
    encode                       inputs -> vectors of the items, on several threads
    extract                      encoder, text -> activations on disk
    cloze_model, cloze           a language model -> scores of sentences and of what fills a blank

``settings`` holds what a recipe can say, ``shape`` what an encoder can be, ``sharing`` what languages share; ``parts`` takes a model
apart, ``distributed`` puts several processes to work and ``threads`` several threads, ``costs`` and ``estimate`` count operations.
"""

if __name__ != "crosslens.models":
    raise ImportError("import this package as crosslens.models, not as models")

__all__: list[str] = []
