"""Languages: their codes and names, in one table.

Data sets call a language ``en``, ``eng`` or ``eng_Latn``, and Chinese ``zh``, ``zho`` or ``cmn``.
Here each of these finds the others. A language that is derived from another one has its code, and
behind it how it was made: ``eng-inversion``.
"""

from collections.abc import Iterable, Mapping

__all__ = [
    "DERIVED",
    "NAMES",
    "SEVERAL",
    "code_of",
    "derivation",
    "names_of",
    "same_language",
    "short_codes",
    "subtag_of",
    "treebank_of",
]

SEVERAL = "mul"
"""The code of a text in several languages (ISO 639-2)."""

_TABLE = """
abk ab Abkhaz; afr af Afrikaans; akk - Akkadian; amh am Amharic; ara ar Arabic; arb - Standard Arabic; asm as Assamese;
azj - North Azerbaijani; aze az Azerbaijani;
bel be Belarusian; ben bn Bengali; bod bo Tibetan; bos bs Bosnian; bre br Breton; bul bg Bulgarian; cat ca Catalan; ceb - Cebuano;
ces cs Czech; chu cu Old Church Slavonic; ckb - Central Kurdish; cmn zh Mandarin Chinese; cop - Coptic; cym cy Welsh; dan da Danish;
deu de German; ell el Greek; eng en English;
epo eo Esperanto; est et Estonian; ekk - Standard Estonian; eus eu Basque; fas fa Persian; pes - Iranian Persian; fao fo Faroese;
fin fi Finnish; fra fr French;
fry fy Western Frisian; gla gd Scottish Gaelic; gle ga Irish; glg gl Galician; glv gv Manx; got - Gothic; grc - Ancient Greek;
grn gn Guarani; guj gu Gujarati; hat ht Haitian Creole;
hau ha Hausa; hbo - Ancient Hebrew; heb he Hebrew; hin hi Hindi; hrv hr Croatian; hsb - Upper Sorbian; hun hu Hungarian; hye hy Armenian;
hyw - Western Armenian; ibo ig Igbo; ind id Indonesian;
isl is Icelandic; ita it Italian; jav jv Javanese; jpn ja Japanese; kan kn Kannada; kat ka Georgian; kaz kk Kazakh; khm km Khmer;
kin rw Kinyarwanda; kir ky Kyrgyz; kmr - Northern Kurdish; kur ku Kurdish; kor ko Korean; lao lo Lao; lat la Latin; lav lv Latvian;
lvs - Standard Latvian; lin ln Lingala;
lit lt Lithuanian; ltz lb Luxembourgish; lug lg Ganda; mal ml Malayalam; mar mr Marathi; mkd mk Macedonian; mlg mg Malagasy; mlt mt Maltese;
mon mn Mongolian; khk - Halh Mongolian; mri mi Māori; msa ms Malay; zsm - Standard Malay; mya my Burmese; nep ne Nepali; npi - Nepali;
nld nl Dutch; nno nn Norwegian Nynorsk;
nob nb Norwegian Bokmål; nor no Norwegian; nya ny Nyanja; oci oc Occitan; ori or Odia; pan pa Punjabi; pol pl Polish; por pt Portuguese;
pus ps Pashto; quy - Ayacucho Quechua; ron ro Romanian; rus ru Russian; san sa Sanskrit; sin si Sinhala; slk sk Slovak; slv sl Slovenian;
sme se Northern Sami; sna sn Shona; snd sd Sindhi; som so Somali; sot st Southern Sotho; spa es Spanish; sqi sq Albanian;
als - Tosk Albanian;
srp sr Serbian; sun su Sundanese;
swa sw Swahili; swh - Swahili; swe sv Swedish; tam ta Tamil; tat tt Tatar; tel te Telugu; tgk tg Tajik; tgl tl Tagalog; tha th Thai;
tsn tn Tswana; tuk tk Turkmen; tur tr Turkish; uig ug Uyghur; ukr uk Ukrainian; urd ur Urdu; uzb uz Uzbek; uzn - Northern Uzbek;
vie vi Vietnamese; wol wo Wolof; xho xh Xhosa; yid yi Yiddish; yor yo Yoruba; yue - Cantonese; zho - Chinese; zul zu Zulu
"""
# Codes of a group of languages, and of the one that data sets mean by it.
_MEANT = """
ara arb; aze azj; est ekk; fas pes; kur kmr; lav lvs; mon khk; msa zsm; nep npi; nor nob; sqi als; swa swh; uzb uzn; zho cmn
"""

# Codes that Wikipedia has from before ISO 639-3, and data made of it, too. Their first part is a
# group of languages, or another language.
_OF_WIKIPEDIA = {
    "bat-smg": "sgs",
    "be-x-old": "be-tarask",
    "fiu-vro": "vro",
    "map-bms": "jv-bms",
    "roa-rup": "rup",
    "roa-tara": "nap-tara",
    "zh-classical": "lzh",
    "zh-min-nan": "nan",
    "zh-yue": "yue",
}
# Treebanks of a language that their name's first part does not say.
_OF_TREEBANKS = {
    "no-bokmaal": "nb-bokmaal",
    "no-nynorsk": "nn-nynorsk",
    "no-nynorsklia": "nn-nynorsklia",
}
_CALLED_NOW = {**_OF_WIKIPEDIA, **_OF_TREEBANKS}


def _read() -> tuple[dict[str, str], dict[str, str]]:
    names, long = {}, {}
    for entry in _TABLE.split(";"):
        three, two, name = entry.split(maxsplit=2)
        names.update({code: name.strip() for code in (three, two) if code != "-"})
        long.update({two: three} if two != "-" else {})
    return names, long


NAMES, _LONG = _read()
"""Code of two or of three letters -> the language's English name."""
_GROUPS = dict(pair.split() for pair in _MEANT.split(";"))
# An individual language, to the one under which texts of both are mostly found.
_BROADER = {one: group for group, one in _GROUPS.items()} | {"nno": "nor", "zho": "cmn"}
_SHORT = {three: two for two, three in _LONG.items()}


DERIVED: Mapping[str, str] = {
    name.replace("-", ""): name.replace("-", " ")
    for name in (
        "identity inversion permutation limited-permutation transliteration order codeswitch "
        "deterministic-shuffle local-shuffle even-odd no-reversal partial-reversal full-reversal token-hop word-hop "
        "own"
    ).split()
}
"""How the code of a derived language goes on behind a hyphen, a setting at its end -> how that is
read; :mod:`crosslens.derive` makes such languages. "own" stands before the name of a transformation
that is none of these."""


def derivation(subtag: str) -> str | None:
    """What a part of a code says of how a language was derived; None where it says nothing of it.

    >>> derivation("inversion"), derivation("localshuffle3"), derivation("Latn")
    ('inversion', 'local shuffle 3', None)
    >>> derivation("ownfirstlast")
    'own firstlast'
    """
    for name, read in DERIVED.items():
        if subtag.startswith(name):
            return f"{read} {subtag.removeprefix(name)}".strip()
    return None


def _split(code: str) -> list[str]:
    """The parts of a code, the language first: of "zh-yue" that is "yue"."""
    plain = code.replace("_", "-")
    for old, now in _CALLED_NOW.items():
        if f"{plain.lower()}-".startswith(f"{old}-"):
            return f"{now}{plain[len(old) :]}".split("-")
    return plain.split("-")


def _parts(code: str) -> tuple[str, str]:
    """The language in three letters, and how it was derived: "-inversion"."""
    first, *rest = _split(code)
    derived = [f"-{part}" for part in rest if derivation(part)]
    return _LONG.get(first.lower(), first.lower()), "".join(derived)


def code_of(code: str) -> str:
    """The three letters (ISO 639-3) of a language that is called by two, or with a script or the
    like behind it; a derived language is one of its own.

    What the table does not have stays as it is.

    >>> code_of("en"), code_of("eng_Latn"), code_of("zh-Hans"), code_of("grc"), code_of("en-inversion")
    ('eng', 'eng', 'cmn', 'grc', 'eng-inversion')
    >>> code_of("zh-yue"), code_of("no_nynorsk")
    ('yue', 'nno')
    """
    return "".join(_parts(code))


def same_language(one: str, other: str) -> bool:
    """Whether two codes name one language; a code of a group of languages names the one that is
    usually meant.

    >>> same_language("zh", "zho_Hans"), same_language("sw", "swh"), same_language("hin", "urd")
    (True, True, False)
    >>> same_language("eng", "eng-inversion"), same_language("en-inversion", "eng-inversion")
    (False, True)
    """
    (first, how), (second, how_other) = _parts(one), _parts(other)
    return _GROUPS.get(first, first) == _GROUPS.get(second, second) and how == how_other


def treebank_of(name: str) -> str:
    """What a treebank is called behind its language; "" of a name that says a language alone.

    >>> treebank_of("en_ewt"), treebank_of("eng"), treebank_of("zho_Hans"), treebank_of("eng-inversion")
    ('ewt', '', '', '')
    """
    _, _, behind = name.partition("_")
    if name.replace("_", "-") in _OF_WIKIPEDIA:
        return ""
    return behind if behind.isalnum() and behind.islower() and not derivation(behind) else ""


def subtag_of(code: str) -> str:
    """What a code says of a language beyond which it is, in lower case: a script, a region, a
    variety; "" of a treebank's name, and of how a language was derived.

    >>> subtag_of("zho_Hant"), subtag_of("nds-nl"), subtag_of("zh-yue"), subtag_of("en_ewt")
    ('hant', 'nl', '', '')
    """
    if treebank_of(code):
        return ""
    return "-".join(part.lower() for part in _split(code)[1:] if not derivation(part))


def names_of(language: str, names: Iterable[str]) -> list[str]:
    """Those of several names that name a language, the closest alone; a script is no other script.

    >>> names_of("fra", ["fr_gsd", "fr_pud", "de_pud"]), names_of("sqi", ["als", "sq"])
    (['fr_gsd', 'fr_pud'], ['sq'])
    >>> names_of("zho", ["zho_Hans", "zho_Hant"]), names_of("zho_Hant", ["zho_Hans"])
    (['zho_Hans', 'zho_Hant'], [])
    >>> names_of("bel", ["be", "be-x-old"])
    ['be']
    """
    there, code, subtag = list(names), code_of(language), subtag_of(language)
    same = [name for name in there if code_of(name) == code]
    same = same or [name for name in there if same_language(name, language)]
    fit = [name for name in same if not (subtag and subtag_of(name) not in ("", subtag))]
    return [name for name in fit if subtag_of(name) == subtag] or fit


def short_codes(code: str) -> list[str]:
    """The two-letter codes under which texts of a language are found, the closest first; none where
    the table has none.

    Parameters
    ----------
    code: of three letters (ISO 639-3) or two (ISO 639-1).

    >>> short_codes("fra"), short_codes("cmn"), short_codes("nno"), short_codes("arb"), short_codes("qqq")
    (['fr'], ['zh'], ['nn', 'no'], ['ar'], [])
    """
    three = _LONG.get(code, code)
    found = [_SHORT.get(one) for one in (three, _BROADER.get(three, ""))]
    return [one for one in found if one]
