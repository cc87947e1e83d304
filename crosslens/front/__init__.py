"""The front door: one call for each thing that is done, on top of all floors. ``import crosslens as
cl`` shows it as ``cl.study`` …"""

__all__: list[str] = []
