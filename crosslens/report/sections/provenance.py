"""How a study was made: settings, texts, encoders, versions, files, the format of the scores, and
definitions."""

from crosslens.report.folders.study import Study
from crosslens.report.parts.layout import definitions, files_table, section, settings_table, table
from crosslens.report.parts.wording import language, paragraph, plural, tag, text

__all__ = ["encoders", "languages_of", "provenance_section"]

_KEYS = (
    (
        "quantity",
        "what was measured: precision_at_1, linear_cka, debiased_linear_cka, accuracy, macro_f1, …",
    ),
    (
        "value",
        (
            "the number; fractions as 0–1; null means that it could not be computed, with the "
            "reason in details"
        ),
    ),
    ("n", "number of items that it was measured on"),
    ("low, high", "95 % interval, null where there is none"),
    ("layer, other_layer", "0 is the output of the embedding layer"),
    ("source, target", "languages; the direction is source to target"),
    (
        "condition",
        (
            "null for the encoder itself, or the alignment or control: unaligned, procrustes, "
            "random_encoder, …"
        ),
    ),
    ("task", "sentence_retrieval, similarity, language_id, …"),
    ("encoder, seed", "whose vectors, and the seed of whatever was sampled at random"),
    (
        "details",
        "anything else that is needed to understand the number, such as the split that the sentences are of",
    ),
)
_DEFINITIONS = (
    (
        "P@1",
        "Precision at 1 of sentence retrieval: the fraction of source sentences whose nearest "
        "target sentence (by cosine similarity, where the settings name nothing else) is "
        "their translation. Chance is 1/n. Intervals are Wilson’s (1927). Retrieval as a test "
        "of alignment: Conneau et al. 2020, “Emerging "
        "cross-lingual structure in pretrained language models”.",
    ),
    ("Unaligned", "Cosine similarity of the vectors as they are."),
    (
        "Procrustes",
        "Vectors are brought to unit length and centred by the means of the training sentences, "
        "then rotated by the orthogonal map "
        "with the smallest squared error there (Schönemann 1966); judged on the held-out "
        "sentences. What it gains over “unaligned” is the work "
        "of centring and of the rotation together.",
    ),
    (
        "Linear CKA",
        "Centred kernel alignment with a linear kernel: Kornblith et al. 2019, “Similarity of "
        "neural network representations "
        "revisited”. The debiased version replaces the biased estimate of HSIC by the "
        "unbiased one (Song et al. 2012). Shuffled sentences: "
        "the rows of one side permuted, which is what no relation looks like.",
    ),
    (
        "Random encoder",
        "The same architecture and tokeniser with new random weights. What it reaches comes "
        "from shared tokens, sentence "
        "length and architecture, not from training.",
    ),
    (
        "Language identification",
        "A linear classifier on the vectors of one layer. Layer-wise language identity: Wu & "
        "Dredze 2019, “Beto, "
        "Bentz, Becas: The surprising cross-lingual effectiveness of BERT”. Shuffled labels: "
        "trained on permuted labels.",
    ),
    (
        "Clearly above",
        "Retrieval is compared with its control on the same sentences, outcome by outcome: "
        "the 95 % interval of the "
        "difference lies above 0 (Agresti & Min 2005; for the mean over directions, Student’s "
        "t over sentences). Elsewhere, and in runs "
        "without such outcomes, the lower end of one 95 % interval lies above the upper end "
        "of the other, which is stricter than a test at "
        "the 5 % level. Neither is corrected for the number of comparisons.",
    ),
)


def encoders(study: Study) -> dict[str, str]:
    """Encoder per language code; "*" is the encoder of all languages. Empty where it is not
    recorded."""
    given = study.section("settings").get("encoders")
    if isinstance(given, dict):
        return {str(code): str(name) for code, name in given.items()}
    return {} if given is None else {"*": str(given)}


def languages_of(study: Study) -> list[str]:
    """Codes of the languages: sides of one language are called by their encoders, too."""
    names = encoders(study)
    codes = study.languages()
    return list(dict.fromkeys(code.removesuffix(f" {names.get(code, '')}") for code in codes))


def provenance_section(study: Study) -> str:
    """The whole section."""
    versions = {
        "crosslens": study.config.get("crosslens", "not recorded"),
        **study.section("versions"),
    }
    right = settings_table("Versions.", versions) + files_table(study.folder) + _other(study)
    left = settings_table(
        "Settings of the run (config.json, “settings”).", study.section("settings")
    )
    parts = [
        _texts(study),
        tag("div", tag("div", left) + tag("div", right), class_="wide"),
        tag("h3", "How to read scores.jsonl"),
        paragraph(
            f"One JSON object per line and measurement; this run has "
            f"{plural(len(study.scores), 'measurement')}."
        ),
        table(
            "Keys of scores.jsonl.",
            ["Key", "Meaning"],
            [[tag("code", text(key)), text(meaning)] for key, meaning in _KEYS],
            plain=True,
        ),
        definitions(_DEFINITIONS),
    ]
    return section("made", "How this was made", *parts)


def _texts(study: Study) -> str:
    texts = study.section("data").get("texts")
    extraction = study.section("extraction")
    names = encoders(study)
    texts = texts if isinstance(texts, dict) else {}
    rows = []
    for code in dict.fromkeys([*study.languages(), *map(str, texts)]):
        given = texts.get(code)
        entry = given if isinstance(given, dict) else {}
        extracted = extraction.get(code)
        cut = extracted.get("truncated") if isinstance(extracted, dict) else None
        facts = [names.get(code, names.get("*")), entry.get("file"), entry.get("sentences"), cut]
        digest = tag("code", text(str(entry["sha256"])[:16])) if entry.get("sha256") else "–"
        rows.append(
            [
                text(language(code)),
                tag("code", text(code)),
                *("–" if fact is None else text(fact) for fact in facts),
                digest,
            ]
        )
    head = [
        "Language",
        "Code",
        "Encoder",
        "File",
        "Sentences in it",
        "Cut to fit the encoder",
        "SHA-256, first 16 digits",
    ]
    caption = "Texts and encoders. The whole SHA-256 of each file is in config.json."
    return table(caption, head, rows) if rows else ""


def _other(study: Study) -> str:
    known = {"kind", "settings", "asked", "data", "extraction", "notes", "versions", "crosslens"}
    rest = {key: value for key, value in study.config.items() if key not in known}
    rest |= {f"data.{key}": value for key, value in study.section("data").items() if key != "texts"}
    result = settings_table("Anything else in config.json.", rest) if rest else ""
    if study.undrawn:
        result += settings_table(
            "Measurements in scores.jsonl that this page has no figure for (number of lines).",
            study.undrawn,
        )
    if study.repeated:
        repeated = plural(study.repeated, "line")
        result += paragraph(
            f"{repeated} of scores.jsonl repeat the keys of an earlier line; the earlier one "
            f"is shown."
        )
    return result
