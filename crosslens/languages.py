"""What languages are called: their codes and English names, in one place."""

__all__ = ["english_name", "short_codes"]

# ISO 639-3, ISO 639-1, English name.
_TABLE = """
afr af Afrikaans; amh am Amharic; ara ar Arabic; arb - Standard Arabic; asm as Assamese; azj - North Azerbaijani; aze az Azerbaijani;
bel be Belarusian; ben bn Bengali; bod bo Tibetan; bos bs Bosnian; bre br Breton; bul bg Bulgarian; cat ca Catalan; ceb - Cebuano;
ces cs Czech; ckb - Central Kurdish; cmn zh Mandarin Chinese; cym cy Welsh; dan da Danish; deu de German; ell el Greek; eng en English;
epo eo Esperanto; est et Estonian; eus eu Basque; fas fa Persian; pes - Iranian Persian; fao fo Faroese; fin fi Finnish; fra fr French;
fry fy Western Frisian; gla gd Scottish Gaelic; gle ga Irish; glg gl Galician; grn gn Guarani; guj gu Gujarati; hat ht Haitian Creole;
hau ha Hausa; heb he Hebrew; hin hi Hindi; hrv hr Croatian; hun hu Hungarian; hye hy Armenian; ibo ig Igbo; ind id Indonesian;
isl is Icelandic; ita it Italian; jav jv Javanese; jpn ja Japanese; kan kn Kannada; kat ka Georgian; kaz kk Kazakh; khm km Khmer;
kin rw Kinyarwanda; kir ky Kyrgyz; kor ko Korean; lao lo Lao; lat la Latin; lav lv Latvian; lvs - Standard Latvian; lin ln Lingala;
lit lt Lithuanian; ltz lb Luxembourgish; lug lg Ganda; mal ml Malayalam; mar mr Marathi; mkd mk Macedonian; mlg mg Malagasy; mlt mt Maltese;
mon mn Mongolian; khk - Halh Mongolian; mri mi Māori; msa ms Malay; zsm - Standard Malay; mya my Burmese; nep ne Nepali; npi - Nepali;
nld nl Dutch; nno nn Norwegian Nynorsk;
nob nb Norwegian Bokmål; nor no Norwegian; nya ny Nyanja; oci oc Occitan; ori or Odia; pan pa Punjabi; pol pl Polish; por pt Portuguese;
pus ps Pashto; quy - Ayacucho Quechua; ron ro Romanian; rus ru Russian; san sa Sanskrit; sin si Sinhala; slk sk Slovak; slv sl Slovenian;
sna sn Shona; snd sd Sindhi; som so Somali; sot st Southern Sotho; spa es Spanish; sqi sq Albanian; als - Tosk Albanian;
srp sr Serbian; sun su Sundanese;
swa sw Swahili; swh - Swahili; swe sv Swedish; tam ta Tamil; tat tt Tatar; tel te Telugu; tgk tg Tajik; tgl tl Tagalog; tha th Thai;
tsn tn Tswana; tuk tk Turkmen; tur tr Turkish; uig ug Uyghur; ukr uk Ukrainian; urd ur Urdu; uzb uz Uzbek; uzn - Northern Uzbek;
vie vi Vietnamese; wol wo Wolof; xho xh Xhosa; yid yi Yiddish; yor yo Yoruba; yue - Cantonese; zho - Chinese; zul zu Zulu
"""
# An individual language, to the one under which texts of both are mostly found (its macrolanguage, as a rule).
_BROADER = {
    "als": "sqi", "arb": "ara", "azj": "aze", "khk": "mon", "lvs": "lav", "nno": "nor", "nob": "nor", "npi": "nep", "pes": "fas",
    "swh": "swa", "uzn": "uzb", "zho": "cmn", "zsm": "msa",
}  # fmt: skip


def _read() -> tuple[dict[str, str], dict[str, str], dict[str, str]]:
    """Code -> English name, ISO 639-3 -> ISO 639-1, and the other way round."""
    names, short, long = dict[str, str](), dict[str, str](), dict[str, str]()
    for entry in _TABLE.split(";"):
        three, two, name = entry.split(maxsplit=2)
        names[three] = name.strip()
        if two != "-":
            names[two], short[three], long[two] = name.strip(), two, three
    return names, short, long


_NAMES, _SHORT, _LONG = _read()


def english_name(code: str) -> str | None:
    """The English name of a language by its code of three or two letters; None where the table lacks it.

    >>> english_name("fra"), english_name("fr"), english_name("qqq")
    ('French', 'French', None)
    """
    return _NAMES.get(code)


def short_codes(code: str) -> list[str]:
    """The two-letter codes under which texts of a language are found, the closest first; none where the table has none.

    Parameters
    ----------
    code: of three letters (ISO 639-3) or two (ISO 639-1).

    >>> short_codes("fra"), short_codes("cmn"), short_codes("nno"), short_codes("arb"), short_codes("qqq")
    (['fr'], ['zh'], ['nn', 'no'], ['ar'], [])
    """
    three = _LONG.get(code, code)
    found = [_SHORT.get(one) for one in (three, _BROADER.get(three, ""))]
    return [one for one in found if one]
