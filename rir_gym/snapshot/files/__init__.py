"""Working directories as a part of the world: ``Files`` stands around any mechanism and saves and restores them, too.

``declared`` says which directories an environment has; ``reading`` reads one into a ``tree``, whose contents lie in
``blobs``; ``plan`` and ``put_back`` make a directory a tree again, by ``descriptors`` alone; ``workdirs`` does that for
several at once, and ``mechanism`` together with the environment's state.
"""

from __future__ import annotations

from rir_gym.snapshot.files.mechanism import Files
from rir_gym.snapshot.files.workdirs import left_as_they_were

__all__ = ["Files", "left_as_they_were"]
