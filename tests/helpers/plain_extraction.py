"""Extraction as one would write it without hurry: one text at a time, Python loops, plain
transformers."""

import torch
from transformers import AutoModel, AutoTokenizer


class Plain:
    """A folder's encoder, asked for one input at a time."""

    def __init__(self, folder, longest):
        self.tokenizer, self.model = (
            AutoTokenizer.from_pretrained(folder),
            AutoModel.from_pretrained(folder, dtype=torch.float32).eval(),
        )
        self.longest = longest
        self.lone = {
            number
            for token, number in self.tokenizer.get_vocab().items()
            if token.strip("▁Ġ") == ""
        }

    @torch.no_grad()
    def states(self, ids):
        """(layer, token, d) of one input."""
        return torch.stack(
            self.model(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        )[:, 0]

    def tokens(self, text):
        """Ids, character spans, which are special, and the (layer, token, d) states of a text of
        any length."""
        encoded = self.tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
        ids, special = encoded["input_ids"], encoded["special_tokens_mask"]
        return ids, encoded["offset_mapping"], special, self._stitched(ids, special)

    def _stitched(self, ids, special):
        if len(ids) <= self.longest:
            return self.states(ids)
        front = special.index(0)
        back = len(ids) - front - (len(special) - sum(special))
        body, room = ids[front : len(ids) - back], self.longest - front - back
        starts = list(range(0, len(body) - room, room - room // 2)) + [len(body) - room]
        runs = {
            start: self.states(ids[:front] + body[start : start + room] + ids[len(ids) - back :])
            for start in starts
        }
        chosen = []
        for place in range(len(body)):
            best = max(
                (s for s in starts if s <= place < s + room),
                key=lambda s: (self._context(s, place, room, len(body)), s),
            )
            chosen.append(runs[best][:, front + place - best])
        head = [runs[starts[0]][:, i] for i in range(front)]
        tail = [runs[starts[-1]][:, front + room + i] for i in range(back)]
        return torch.stack([*head, *chosen, *tail], dim=1)

    @staticmethod
    def _context(start, place, room, length):
        """How many tokens lie between a place and the nearest edge of its window that cuts the
        text."""
        left = place - start if start > 0 else length
        right = start + room - 1 - place if start + room < length else length
        return min(left, right)

    def words(self, text, spans, pool="mean"):
        """[(layer, d) of each word, or None where it has no piece], and how many pieces it has."""
        ids, offsets, special, states = self.tokens(text)
        found, counts = [], []
        for start, end in spans:
            pieces = [
                i
                for i, (a, b) in enumerate(offsets)
                if not special[i] and a < end and b > start and b > a
            ]
            pieces = [i for i in pieces if ids[i] not in self.lone] or pieces
            counts.append(len(pieces))
            found.append(pooled(states[:, pieces], pool) if pieces else None)
        return found, counts


def pooled(states, pool):
    """(layer, d) of (layer, pieces, d)."""
    return {
        "mean": states.mean(1),
        "max": states.amax(1),
        "first": states[:, 0],
        "last": states[:, -1],
    }[pool]
