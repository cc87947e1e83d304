"""Stanford's contextual word similarity: how alike are two words, each in its context?"""

from crosslens.probes.tasks.data_folder import DataFolder
from crosslens.probes.tasks.items import RatedWords
from crosslens.probes.tasks.task import Card, Task
from crosslens.readers.scws import read_scws

__all__ = ["TASK"]

_FILE = "scws/ratings.txt"


def _read(data: DataFolder, language: str) -> RatedWords:
    (path,) = data.find(_FILE)
    return RatedWords(read_scws(path))


TASK = Task(
    name="scws",
    kind="rank",
    group="semantic",
    metrics=("spearman",),
    read=_read,
    languages=lambda data: ("eng",) if data.path(_FILE) else (),
    card=Card(
        title="Similarity in context (SCWS)",
        says="The cosine of the vectors of two marked words, ranked against how alike people find "
        "them in their contexts "
        "(Huang et al. 2012): Spearman’s correlation. Nothing is trained. Papers print it × 100.",
        data=_FILE,
        languages="English",
        chance="0",
        citation="""@inproceedings{huang2012scws,
  author = {Huang, Eric and Socher, Richard and Manning, Christopher and Ng, Andrew},
  title = {Improving Word Representations via Global Context and Multiple Word Prototypes},
  booktitle = {Proceedings of ACL}, year = {2012}
}""",
        licence="none is stated with the data",
        address="http://www-nlp.stanford.edu/~ehhuang/SCWS.zip",
    ),
)
