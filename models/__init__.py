"""Everything that needs torch, transformers or tokenizers: training encoders and taking them apart.

From text to vectors, one file per arrow:

    text/tokenisation, text/vocabularies    text -> vocabularies -> subwords
    text/token_files                        subwords -> token files on disk
    training/sources                        the files of a recipe -> sentences, trained on or held out
    training/data, training/streams         sentences -> streams
    training/batches                        (seed, step) -> the rows of a batch
    training/masking                        batch -> what the model sees and must predict
    training/masked_batches                 step -> tensors
    network/encoder                         ids -> hidden states -> scores -> loss
    training/optimisers                     step -> learning rate; AdamW, Adam, LAMB
    training/objective, training/loop       what is minimised; the one loop that all trainings go
                                            through
    training/masked_lm                      the objective of a recipe; a recipe -> a model folder
    training/validation                     perplexity, retrieval, alignment of token embeddings
    training/checkpoint, training/events    state <-> disk; the log
    saved/interop, saved/native             our weights <-> a transformers folder, or a folder of
                                            all languages' parts
    saved/locate                            a folder or hub name -> the folder of an encoder
    saved/loading                           that folder -> an encoder
    saved/pretrained                        what transformers has loaded, as an encoder
    saved/native_encoder                    our own model of several languages as an encoder
    extraction/encoder                      what every encoder can be asked for
    extraction/units                        text -> inputs of an encoder, and where the items are in
                                            them
    extraction/encode                       inputs -> vectors of the items, on several threads
    extraction/extract                      encoder, text -> activations
    scoring/cloze_model, scoring/cloze      a language model -> scores of sentences and of what
                                            fills a blank

What they lean on:

    training/settings, limits               what a recipe can say, and what each of its numbers may
                                            be
    training/costs, training/estimate       operations, counted
    network/shape, network/sharing          what an encoder can be, and what languages share
    network/surgery                         who owns which parameters; freezing, plugging in
    saved/model_files, saved/arrays         which files of a model folder are read; tensors as they
                                            are stored
    saved/model_languages                   models that are told the language of their input
    saved/read_languages                    which of them it has, before its weights are loaded
    saved/xlm_tokeniser                     XLM's own tokeniser, with the characters of each subword
    machine/distributed, machine/threads    several processes, several threads
"""

if __name__ != "crosslens.models":
    raise ImportError("import this package as crosslens.models, not as models")

__all__: list[str] = []
