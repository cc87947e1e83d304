"""An encoder with a head, as one module."""

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from crosslens.errors import refuse
from crosslens.models.extraction.encoder import Encoder
from crosslens.models.finetuning.examples import languages_of
from crosslens.models.finetuning.kind import Kind, Row
from crosslens.models.finetuning.settings import FineTuning
from crosslens.models.machine.threads import same_weights
from crosslens.models.network.encoder import MaskedLM
