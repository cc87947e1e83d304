"""Fine-tuning: an encoder and a head, trained on labelled examples of one or more languages.

examples.py    what is learnt from and answered: texts, words
kind.py        what each kind of task (classify, tag, ...) has to say of itself
settings.py    how it is trained
finetune.py    the training, its epochs, and what is predicted with them
"""
