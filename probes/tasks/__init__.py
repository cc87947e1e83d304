"""Tasks: what is asked of an encoder, each in one file, listed in
:mod:`crosslens.probes.tasks.catalogue`.

    task         what a task declares: name, kind, languages, files, items, metrics, card
    items        the items of each kind of task
    data_folder  the folder of data sets, in which tasks find their files
    treebanks    Universal Dependencies by language
    catalogue    all tasks, one line each

How a kind of task is measured stands in :mod:`crosslens.run`. Importing a task loads no torch.
"""
