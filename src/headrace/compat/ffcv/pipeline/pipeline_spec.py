"""What happens to one output: a source, a decoder, transforms."""

from __future__ import annotations

from typing import Any

import torch

from headrace.compat.ffcv.transforms.module import ModuleWrapper
from headrace.compat.ffcv.transforms.ops import ToTensor
from headrace.compat.passed_on import pass_on

__all__ = ["PipelineSpec"]
pass_on(globals(), "List ModuleWrapper Operation ToTensor Union ch")


class PipelineSpec:
    """A pipeline by name of the field, or by the operation of another pipeline from which it branches off.

    The lists that are given stay as they are.
    """

    def __init__(self, source: Any, decoder: Any = None, transforms: Any = None) -> None:
        self.source = source
        self.decoder = decoder
        self.transforms: list[Any] = list(transforms or ())
        self.default_pipeline = decoder is None and not self.transforms and isinstance(source, str)

    def __repr__(self) -> str:
        return repr((self.source, self.decoder, self.transforms))

    def accept_decoder(self, Decoder: Any, output_name: str) -> None:
        """Take the first operation as the decoder if it is one, else the field's own."""
        if not isinstance(self.source, str) and self.decoder is not None:
            raise ValueError("Source can't be a node and also have a decoder")
        if Decoder is not None:
            if self.transforms and isinstance(self.transforms[0], Decoder):
                self.decoder = self.transforms.pop(0)
            elif self.decoder is None:
                try:
                    self.decoder = Decoder()
                except Exception as error:
                    raise ValueError(
                        f"Impossible to use default decoder for {output_name}, "
                        "make sure you specify one in your pipeline."
                    ) from error
        if self.default_pipeline:
            self.transforms.append(ToTensor())
            self.default_pipeline = False
        self.transforms = [ModuleWrapper(op) if isinstance(op, torch.nn.Module) else op for op in self.transforms]
