"""Pipelines: specifications, operations, states."""

from headrace.compat.ffcv.pipeline.compiler import Compiler
from headrace.compat.ffcv.pipeline.pipeline import Pipeline
from headrace.compat.ffcv.pipeline.pipeline_spec import PipelineSpec

__all__ = ["Compiler", "Pipeline", "PipelineSpec"]
