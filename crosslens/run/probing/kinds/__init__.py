"""How each kind of task is measured on an encoder's layers, one module for each kind.

task             what all of them have: texts to extract, facts to record, ``measure``
classify         a label for each text; surface: what the characters alone say
tag, span        a label for each word, for each two words; labels: what these and classify share
parse            structural probes of trees
classify_pair    a word in two contexts
rank             cosines against ratings
minimal_pairs    which of two sentences a language model holds for likelier
numbers          a number for each text
build            from what a task's file declares and its items to something that can be measured
"""
