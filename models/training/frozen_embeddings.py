"""Token embeddings that were made elsewhere, and stand still while everything above them is trained.

After the CLWE systems of Artetxe et al. 2020. A recipe's ``embeddings`` is a folder of
:class:`crosslens.models.text.subword_vectors.SubwordVectors`: the recipe's one language has that
vocabulary, and these vectors as the rows of its subwords. Where they are not as wide as the model,
``encoder.embedding_size`` is their width, and a projection that all languages share takes them to
its own. The special tokens have no vectors: no text holds them, and [MASK] must be learnt. Their
rows are a table of their own (``encoder.special_table``), trained with the body and shared by all
languages. Trained is, too, the output bias, which belongs to the language.
"""

from pathlib import Path

import torch

from crosslens.errors import refuse
from crosslens.files import sha256_file
from crosslens.models.network.encoder import MaskedLM
from crosslens.models.network.surgery import freeze
from crosslens.models.text.subword_vectors import SubwordVectors
from crosslens.models.text.tokenisation import SPECIAL_TOKENS
from crosslens.models.text.vocabularies import Vocabularies
from crosslens.models.training.settings import TrainRecipe

__all__ = [
    "check_embeddings",
    "embeddings_fingerprint",
    "given_vocabularies",
    "put_embeddings",
]


def check_embeddings(recipe: TrainRecipe) -> None:
    """Refuse embeddings that the recipe does not fit, before anything is made.

    Parameters
    ----------
    recipe: as :func:`crosslens.models.training.settings.resolve` makes it.

    Raises
    ------
    InputError: there are none, or they are of another language or width.
    StoreError: they are damaged.
    """
    given = SubwordVectors.load(recipe.embeddings)
    (language,) = recipe.languages
    if given.language != language:
        remedy = "name the vectors of the sources' language"
        refuse("embeddings", f"vectors of {language}", f"those of {given.language}", remedy)
    _check_width(given, recipe.encoder.token_size)


def embeddings_fingerprint(recipe: TrainRecipe) -> str:
    """The content hash of the vectors, which holds that of their vocabulary."""
    return sha256_file(Path(recipe.embeddings) / "vectors.safetensors")[:16]


def given_vocabularies(recipe: TrainRecipe) -> Vocabularies:
    """The vocabulary that the embeddings come with."""
    return SubwordVectors.load(recipe.embeddings).vocabulary


def put_embeddings(model: MaskedLM, folder: str | Path) -> None:
    """Give a language of a model the vectors of a folder as its token embeddings, and freeze them.

    The language is the vectors'; the rows of special tokens are left as they are.

    Raises
    ------
    InputError: the model lacks the language, or its tokens have another width or number.
    """
    given = SubwordVectors.load(folder)
    _check_width(given, model.config.token_size)
    (table,) = model.encoder.token.of(given.language).parameters()
    rows = torch.from_numpy(given.vectors[len(SPECIAL_TOKENS) :])
    if rows.shape != table.shape:
        expected = f"vectors of {len(table)} subwords beside special tokens, as the model has"
        refuse("embeddings", expected, str(len(rows)), "give those of the model's vocabulary")
    with torch.no_grad():
        table.copy_(rows)
    freeze(model, ["token"], [given.language])


def _check_width(given: SubwordVectors, wide: int) -> None:
    if given.vectors.shape[1] != wide:
        remedy = f"set encoder.embedding_size={given.vectors.shape[1]}"
        expected = f"vectors of {wide} dimensions, as the token embeddings have"
        refuse("embeddings", expected, str(given.vectors.shape[1]), remedy)
