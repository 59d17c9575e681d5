"""What every format must do, as tests that other packages run on theirs.

``FormatSuite`` is a class for pytest; ``headrace.testing.strategies`` makes fields and samples for hypothesis. Neither
package is needed to import this one.
"""

from headrace.testing.columns import SampleColumn, sample_columns
from headrace.testing.comparison import is_same
from headrace.testing.suite import FormatSuite

__all__ = ["FormatSuite", "SampleColumn", "is_same", "sample_columns"]
