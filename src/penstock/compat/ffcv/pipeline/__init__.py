"""Pipelines: specifications, operations, states."""

from penstock.compat.ffcv.pipeline.compiler import Compiler
from penstock.compat.ffcv.pipeline.pipeline import Pipeline
from penstock.compat.ffcv.pipeline.pipeline_spec import PipelineSpec

__all__ = ["Compiler", "Pipeline", "PipelineSpec"]
