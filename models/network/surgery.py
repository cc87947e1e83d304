"""A model taken apart: who owns which parameters, freezing parts, plugging in another language's.

Each is one call: :func:`sharing_table` (in numbers: :func:`parameter_counts`), :func:`freeze`,
:func:`freeze_all_but`, :func:`freeze_layers`, :func:`plug_in`; and what MonoTrans (Artetxe et al.
2020) puts into a model that is trained already: :func:`add_adapters`, :func:`split_special`,
:func:`set_noise`.
Exporting one language's view as an ordinary transformers model is
:func:`crosslens.models.saved.interop.export_model`.

In MonoTrans' second step nothing is trained but what the new language owns: ``freeze_all_but(model,
"fra")``. In the third nothing is frozen but what languages own: ``freeze(model)``, as fine-tuning
does by itself. The special tokens are then trained although all other token rows stand still, since
:func:`split_special` makes them a parameter of their own. A mask on the gradient of the whole table
would need an optimiser that never decays it and moments as large as it is, LAMB would rescale the
five rows by the norm of all, and each language's table would hold a copy to be kept equal.
"""

import copy
import dataclasses
import functools
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from crosslens.errors import InputError, refuse
from crosslens.models.limits import LIMITS, shown
from crosslens.models.network.adapters import BOTTLENECK, LayerAdapters
from crosslens.models.network.encoder import Layer, MaskedLM, PerLanguage
from crosslens.models.network.noise import NOISE, add_noise
from crosslens.models.text.tokenisation import SPECIAL_TOKENS

__all__ = [
    "Owner",
    "add_adapters",
    "freeze",
    "freeze_all_but",
    "freeze_layers",
    "numbered_layers",
    "parameter_counts",
    "parameters_by_owner",
    "plug_in",
    "set_noise",
    "sharing_table",
    "split_special",
]

_LAYER = re.compile(r"(?:^|\.)(?:layers?|adapters)\.(\d+)\.")
_PART = {
    "token": "token",
    "special": "special",
    "projection": "projection",
    "position": "position",
    "segment": "segment",
    "language": "language",
    "norm": "norm",
    "transform": "transform",
    "transform_norm": "transform",
    "output": "softmax",
    "output_bias": "bias",
    "pooler": "next_sentence",
    "follows": "next_sentence",
}
# what a part's output depends on beside its weights, and their shapes do not tell
_BESIDE_WEIGHTS = {
    "position": ("position_offset",),
    "norm": ("norm_eps",),
    "layers": ("heads", "activation", "norm_eps"),
    "transform": ("activation",),
    "transform_norm": ("norm_eps",),
}


class Owner(NamedTuple):
    """Where a parameter belongs: its part, and the language that owns it ("" where it is
    shared)."""

    part: str
    language: str


def parameters_by_owner(model: MaskedLM) -> Iterator[tuple[Owner, str, nn.Parameter]]:
    """Every parameter with its owner and its name, in the model's order."""
    for name, parameter in model.named_parameters():
        words = name.removeprefix("encoder.").split(".")
        if words[0] in ("layers", "adapters"):
            number, key = words[1:3]
            part = str(int(number) + 1) if words[0] == "layers" else "adapters"
        else:
            part, key = _PART[words[0]], words[1]
        yield (
            Owner(part, key.removeprefix("own_") if key.startswith("own_") else ""),
            name,
            parameter,
        )


def parameter_counts(model: MaskedLM, *, trained_only: bool = False) -> dict[str, dict[str, int]]:
    """Part to owner ("" where all languages share it) to the number of its parameters, parts in the
    model's order.

    Parameters
    ----------
    trained_only: count what is not frozen, and leave out parts that are.

    >>> from crosslens.models.network.encoder import EncoderConfig
    >>> from crosslens.models.network.sharing import SharingPlan
    >>> config = EncoderConfig(vocab_size=10, hidden_size=4, layers=1, heads=1, ffn_size=8, max_positions=8)
    >>> counts = parameter_counts(MaskedLM(config, languages=("eng", "fra"), plan=SharingPlan.parse("sep=token", layers=1)))
    >>> counts["token, softmax"], counts["position"]
    ({'': 0, 'eng': 40, 'fra': 40}, {'': 32, 'eng': 0, 'fra': 0})
    """
    counts: dict[str, dict[str, int]] = {}
    for owner, _, parameter in parameters_by_owner(model):
        if trained_only and not parameter.requires_grad:
            continue
        name = "token, softmax" if owner.part == "token" and model.config.tied else owner.part
        row = counts.setdefault(name, dict.fromkeys(("", *model.languages), 0))
        row[owner.language] += parameter.numel()
    return counts


def sharing_table(model: MaskedLM, *, trained_only: bool = False) -> list[tuple[str, ...]]:
    """Who owns how many parameters, as rows of cells: a head, a row for each part, and the sums.

    Parameters
    ----------
    trained_only: as for :func:`parameter_counts`.

    >>> from crosslens.models.network.encoder import EncoderConfig
    >>> from crosslens.models.network.sharing import SharingPlan
    >>> config = EncoderConfig(vocab_size=10, hidden_size=4, layers=2, heads=1, ffn_size=8, max_positions=8)
    >>> plan = SharingPlan.parse("sep=1", layers=2)
    >>> for row in sharing_table(MaskedLM(config, languages=("eng", "fra"), plan=plan)): print(*row, sep=" | ")
    part | shared | eng | fra
    bias | 10 | - | -
    token, softmax | 40 | - | -
    position | 32 | - | -
    norm | 8 | - | -
    1 | - | 172 | 172
    2 | 172 | - | -
    transform | 28 | - | -
    sum | 290 | 172 | 172
    one language sees | - | 462 | 462
    """
    owners = ("", *model.languages)
    counts = parameter_counts(model, trained_only=trained_only)
    sums = {owner: sum(row[owner] for row in counts.values()) for owner in owners}
    rows: list[tuple[str, ...]] = [("part", "shared", *model.languages)]
    rows += [
        (name, *(f"{row[owner]:,}" if row[owner] else "-" for owner in owners))
        for name, row in counts.items()
    ]
    rows.append(("sum", *(f"{sums[owner]:,}" for owner in owners)))
    rows.append(
        ("one language sees", "-", *(f"{sums[''] + sums[owner]:,}" for owner in model.languages))
    )
    return rows


def freeze(
    model: MaskedLM,
    parts: Iterable[str] | None = None,
    languages: Iterable[str] | None = None,
    *,
    frozen: bool = True,
) -> int:
    """Stop (or, with ``frozen=False``, go on) training some parts; returns the number of parameters
    concerned.

    Parameters
    ----------
    parts: names as in :data:`crosslens.models.network.sharing.PARTS`, and layers by their number;
        None means all that languages own.
    languages: only what these languages own; None means everything in the parts, shared or not.

    Raises
    ------
    InputError: the model has no such part, or nothing in it belongs to these languages.
    """
    wanted = None if parts is None else set(parts)
    owners = None if languages is None else set(languages)
    known = {owner.part for owner, _, _ in parameters_by_owner(model)}
    if wanted is not None and not wanted <= known:
        refuse(
            "parts",
            f"parts of the model ({', '.join(sorted(known))})",
            ", ".join(sorted(wanted - known)),
            "check the spelling",
        )
    count = 0
    for owner, _, parameter in parameters_by_owner(model):
        in_parts = owner.language != "" if wanted is None else owner.part in wanted
        if in_parts and (owners is None or owner.language in owners):
            parameter.requires_grad_(not frozen)
            count += parameter.numel()
    if not count:
        whose = "languages own" if languages is None else f"{', '.join(sorted(owners or ()))} owns"
        refuse("parts", f"something that {whose}", "nothing", "see sharing_table(model)")
    return count


def freeze_all_but(model: MaskedLM, language: str, parts: Iterable[str] | None = None) -> int:
    """Freeze everything but what one language owns (Artetxe et al. 2020, § 2.2, step 2); returns the
    number of parameters that are trained.

    Frozen parameters are no business of the optimiser, so neither weight decay nor LAMB's rescaling
    touches a bit of them. Shared parts that are to learn, too, are named afterwards: ``freeze(model,
    ["special"], frozen=False)``.

    Parameters
    ----------
    parts: which of its parts, named as for :func:`freeze`; None means all.

    Raises
    ------
    InputError: the model has no such part, or the language owns nothing in them.

    >>> from crosslens.models.network.encoder import EncoderConfig
    >>> from crosslens.models.network.sharing import SharingPlan
    >>> config = EncoderConfig(vocab_size=10, hidden_size=4, layers=1, heads=1, ffn_size=8, max_positions=8)
    >>> model = MaskedLM(config, languages=("eng", "fra"), plan=SharingPlan.parse("sep=token,position", 1))
    >>> freeze_all_but(model, "fra"), parameter_counts(model, trained_only=True)
    (82, {'bias': {'': 0, 'eng': 0, 'fra': 10}, 'token, softmax': {'': 0, 'eng': 0, 'fra': 40}, 'position': {'': 0, 'eng': 0, 'fra': 32}})
    """
    before = [parameter.requires_grad for parameter in model.parameters()]
    model.requires_grad_(False)
    try:
        return freeze(model, parts, [language], frozen=False)
    except InputError:
        for parameter, trained in zip(model.parameters(), before, strict=True):
            parameter.requires_grad_(trained)
        raise


def numbered_layers(names: Iterable[str]) -> int:
    """How many layers the names of an encoder's parameters tell of, those of ours or BERT's.

    >>> numbered_layers(["embeddings.norm.weight", "encoder.layer.0.weight", "encoder.layer.3.bias"])
    4
    """
    found = (int(match[1]) for name in names if (match := _LAYER.search(name)))
    return 1 + max(found, default=-1)


def freeze_layers(model: nn.Module, n: int) -> int:
    """Freeze the embeddings and the first n layers (Wu & Dredze 2019, § 5.2); returns the number of
    tensors still trained.

    Parameters
    ----------
    model: one of ours, or a transformers encoder with ``embeddings`` and ``encoder.layer`` (BERT,
        RoBERTa, XLM-R), bare or with a head.
    n: -1 freezes nothing, 0 the embeddings, 3 the embeddings and layers 1 to 3.

    Raises
    ------
    InputError: n is below -1 or above the number of layers, or the model is laid out otherwise.
    """
    depth = numbered_layers(name for name, _ in model.named_parameters())
    if not depth:
        refuse(
            "model",
            "an encoder with numbered layers",
            type(model).__name__,
            "give a BERT-like encoder",
        )
    if not -1 <= n <= depth:
        refuse("n", f"a whole number from -1 to {depth}", repr(n), "-1 freezes nothing")
    embedding = re.compile(
        r"(?:^|\.)embeddings(?:_project)?\.|^encoder\.(?:token|special|projection|position|segment|language|norm)\."
    )
    for name, parameter in model.named_parameters():
        match = _LAYER.search(name)
        if (match and int(match[1]) < n) or (not match and n >= 0 and embedding.search(name)):
            parameter.requires_grad_(False)
    return sum(parameter.requires_grad for parameter in model.parameters())


def set_noise(model: nn.Module, sigma: float = NOISE) -> None:
    """Let a model add noise to its embeddings of tokens, positions and segments in training mode
    (:func:`crosslens.models.network.noise.add_noise`); what it added before is replaced.

    Parameters
    ----------
    model: one of ours, or a model of transformers with embeddings as BERT has them, bare or with a
        head.
    sigma: standard deviation; 0 for none.

    Raises
    ------
    InputError: the model has no such embeddings, or no such deviation is possible.

    >>> from crosslens.models.network.encoder import EncoderConfig
    >>> model = MaskedLM(EncoderConfig(hidden_size=4, layers=1, heads=1, dropout=0.0)).train()
    >>> ids, _ = torch.tensor([[2, 7, 3]]), set_noise(model)
    >>> torch.equal(*(model.encoder(ids, torch.arange(3)[None])[0] for _ in range(2)))
    False
    """
    if not (limits := LIMITS["EncoderConfig"]["noise"]).hold(sigma):
        refuse("noise", str(limits), shown(sigma), limits.remedy)
    if isinstance(model, MaskedLM):
        model.encoder.noise = sigma
        return
    found: list[Any] = [
        module
        for name, module in model.named_modules()
        if re.search(r"(?:^|\.)embeddings$", name) and hasattr(module, "LayerNorm")
    ]
    if sigma and not found:
        expected = "an encoder with embeddings as BERT has them"
        remedy = "leave noise out, or give a BERT-like encoder"
        refuse("noise", expected, type(model).__name__, remedy)
    for embeddings in found:
        if hasattr(embeddings, "noise"):
            embeddings.noise.remove()
        if sigma:
            # what is added up gets the noise of all that is: transformers looks positions up once
            # for all rows, and each row has noise of its own
            tables = sum(isinstance(one, nn.Embedding) for one in embeddings.children())
            hook = functools.partial(_with_noise, sigma * tables**0.5)
            embeddings.noise = embeddings.LayerNorm.register_forward_pre_hook(hook)


def _with_noise(sigma: float, module: nn.Module, given: tuple[Tensor]) -> tuple[Tensor]:
    """As torch calls it before a module."""
    return (add_noise(given[0], sigma, module.training),)


@torch.no_grad()
def plug_in(
    model: MaskedLM, language: str, donor: MaskedLM, donor_language: str | None = None
) -> None:
    """Give a language of ``model`` the donor's parts, as copies: in the place of its own, or as a
    new language.

    Only the parts that languages own in ``model`` are touched, and dropout is the model's. What the
    donor shares between its languages is taken as it is, so a monolingual model's embeddings can be
    plugged in, too (Artetxe et al. 2020, § 2.2: a new language's token embeddings).

    Parameters
    ----------
    language: the language of ``model`` that gets the parts; a new one is added behind the others.
    donor: a model of the same shape, its vocabulary apart.
    donor_language: whose parts; None means ``language`` where the donor has it, else its first
        language.

    Raises
    ------
    InputError: nothing is owned by languages in ``model``, or the shapes differ, or another number
        that these parts depend on (heads, say).
    """
    if "." in language:
        refuse("language", "a code without a full stop", repr(language), "choose another code")
    source = donor_language or (language if language in donor.languages else donor.languages[0])
    found = [(name, modules) for name, modules in _per_language(model) if modules.owned]
    theirs = dict(_per_language(donor))
    if not found:
        refuse(
            "model",
            "a plan with parts that each language owns",
            str(model.plan),
            "plug parts into a model with sep=emb, say",
        )
    replacements = []
    for name, modules in found:
        if name not in theirs:
            refuse("donor", f"a model with {name}", "one without", "give a model of the same shape")
        for field in _BESIDE_WEIGHTS.get(name.removeprefix("encoder.").split(".")[0], ()):
            here, there = (getattr(config, field) for config in (model.config, donor.config))
            if here != there:
                expected, remedy = f"encoder.{field} = {here!r}", "give a model of the same shape"
                refuse("donor", f"{expected}, as the model has", repr(there), remedy)
        new, old = theirs[name].of(source), next(iter(modules.values()))
        if differ := sorted(new.state_dict().keys() ^ old.state_dict().keys()):
            got = f"one {'with' if differ[0] in new.state_dict() else 'without'} {differ[0]}"
            remedy = "give a model of the same shape"
            refuse("donor", f"a model with the same tensors in {name}", got, remedy)
        for key, value in new.state_dict().items():
            before = old.state_dict()[key]
            rows_may_differ = name in ("encoder.token", "output", "output_bias")
            if value.shape[rows_may_differ:] != before.shape[rows_may_differ:]:
                refuse(
                    "donor",
                    f"{name} of shape {tuple(before.shape)}",
                    str(tuple(value.shape)),
                    "give a model of the same shape",
                )
        new = copy.deepcopy(new)
        if isinstance(new, Layer) and isinstance(old, Layer):  # how it is computed is the model's
            new.rate, new.eager = old.rate, old.eager
        replacements.append((modules, new))
    size = donor.sizes[source]
    if model.config.special_table != donor.config.special_table:
        got = "one with" if donor.config.special_table else "one without"
        refuse(
            "donor", "a model whose special tokens have a table as here", got, "see split_special"
        )
    if not model.plan.owned("token") and size != model.sizes[model.languages[0]]:
        refuse(
            "donor",
            f"{model.sizes[model.languages[0]]} token ids, as they are shared",
            str(size),
            "use sep=emb",
        )
    for modules, module in replacements:
        modules[f"own_{language}"] = module
    if model.plan.owned("token"):
        model.sizes[language] = size
    if language not in model.languages:
        _add_name(model, language)


def _add_name(model: MaskedLM, language: str) -> None:
    """Number a language that has just been given its parts."""
    model.sizes.setdefault(language, next(iter(model.sizes.values())))
    model.languages = (*model.languages, language)
    model.encoder.languages = model.languages
    if model.config.language_embeddings:  # the mean of the known ones, until it is trained
        old = model.encoder.language.weight
        model.encoder.language = nn.Embedding.from_pretrained(
            torch.cat([old, old.mean(0, keepdim=True)]), freeze=not old.requires_grad
        )


def add_adapters(
    model: MaskedLM,
    bottleneck: int = BOTTLENECK,
    *,
    languages: Iterable[str] | None = None,
    norms: bool = False,
    seed: int = 0,
) -> None:
    """Give each language adapters of its own in every layer of a model that has none.

    Parameters
    ----------
    bottleneck: their units.
    languages: whose adapters are to be trained, and so begin near the identity; those of the others
        are the identity, to the bit. None means all.
    norms: whether they rescale the layers' norms as well.
    seed: of the first weights.

    Raises
    ------
    InputError: the model has adapters, or lacks a language; or adapters of no units.

    >>> from crosslens.models.network.encoder import EncoderConfig
    >>> config = EncoderConfig(vocab_size=10, hidden_size=4, layers=1, heads=1, ffn_size=8, max_positions=8)
    >>> model = MaskedLM(config, languages=("eng", "fra"))
    >>> add_adapters(model, 2, languages=["fra"])
    >>> str(model.plan), parameter_counts(model)["adapters"]
    ('sep=adapters', {'': 0, 'eng': 44, 'fra': 44})
    """
    wanted = set(model.languages if languages is None else languages)
    if model.config.adapters:
        got = f"one with adapters of {model.config.adapters} units"
        refuse("model", "one without adapters", got, "train these")
    if bottleneck == 0:  # what a model without adapters says of itself
        refuse("bottleneck", "1 unit or more", "0", "leave the model as it is")
    if unknown := sorted(wanted - set(model.languages)):
        known = f"some of {', '.join(model.languages)}"
        refuse("languages", known, ", ".join(unknown), "name languages that the model has")
    config = dataclasses.replace(model.config, adapters=bottleneck, adapter_norms=norms)
    plan = model.plan
    model.plan = dataclasses.replace(plan, separate=plan.separate | {"adapters"})
    device = next(model.parameters()).device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model.encoder.add_adapters(bottleneck, owned=True, norms=norms)
    model.config = config
    for modules in model.encoder.adapters.to(device):
        for language in set(model.languages) - wanted:
            pair = cast(LayerAdapters, cast(PerLanguage, modules).of(language))
            pair.become_identity()


@torch.no_grad()
def split_special(model: MaskedLM, language: str | None = None) -> None:
    """Give the special tokens a table of their own, which all languages share. What was frozen stays
    so.

    Parameters
    ----------
    language: whose rows for them are taken; None means the first.

    Raises
    ------
    InputError: they have one.

    >>> from crosslens.models.network.encoder import EncoderConfig
    >>> config = EncoderConfig(vocab_size=10, hidden_size=4, layers=1, heads=1, ffn_size=8, max_positions=8)
    >>> model = MaskedLM(config)
    >>> before = model.encoder.token_table("und").clone()
    >>> split_special(model)
    >>> model.encoder.special.weight.shape, torch.equal(model.encoder.token_table("und"), before)
    (torch.Size([5, 4]), True)
    """
    if model.config.special_table:
        refuse("model", "one without a table of special tokens", "one with it", "train this one")
    network, apart = model.encoder, len(SPECIAL_TOKENS)
    taken = cast(Tensor, network.token.of(language or model.languages[0]).weight)
    config = dataclasses.replace(model.config, special_table=True)
    rows, frozen = taken[:apart].clone(), not taken.requires_grad
    network.special = nn.Embedding.from_pretrained(rows, freeze=frozen)
    for name, module in network.token.items():
        weight = cast(Tensor, module.weight)
        rest, frozen = weight[apart:].clone(), not weight.requires_grad
        network.token[name] = nn.Embedding.from_pretrained(rest, freeze=frozen)
    model.config = network.config = config


def _per_language(model: MaskedLM) -> Iterator[tuple[str, PerLanguage]]:
    return (
        (name, module) for name, module in model.named_modules() if isinstance(module, PerLanguage)
    )
