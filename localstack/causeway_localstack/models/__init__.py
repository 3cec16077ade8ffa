"""Parts of ELBv2 that the pinned botocore lacks: regular expressions, transforms and JWT validation in rules, and the
port of the target optimizer.

The folders here are laid out like botocore's own data; its loaders merge `*.sdk-extras.json` into the models they read.
Remove an entry once the pinned botocore has it.
"""

from pathlib import Path

from botocore.loaders import Loader

FOLDER = Path(__file__).parent


def add_to(loader: Loader) -> None:
    """Makes a loader read the newer shapes too; call before it loads ELBv2."""
    if str(FOLDER) not in loader.search_paths:
        loader.search_paths.append(str(FOLDER))
