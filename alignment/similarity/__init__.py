"""How alike representations of the same items are: CKA and its relatives."""
